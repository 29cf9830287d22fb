"""The demo: a shop's orders, payments, clicks and customers, through a pipeline of several hops, checked in batch."""
