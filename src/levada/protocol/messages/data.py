"""Free-standing structs that travel inside other fields or records."""

from levada.protocol.declare import Bool, Int16, Int32, String, message


@message(versions="0")
class ControlRecordTypeSchema:
    type: Int16


@message(versions="0", flexible="0+")
class DefaultPrincipalData:
    type: String
    name: String
    token_authenticated: Bool


@message(versions="0")
class EndTxnMarker:
    coordinator_epoch: Int32
