"""BrokerRegistration (api key 62), every version."""

from dataclasses import field
from typing import Annotated

from levada.protocol.declare import (
    IGNORABLE,
    Bool,
    Int16,
    Int32,
    Int64,
    Request,
    Since,
    String,
    UInt16,
    Uuid,
    message,
    struct,
)


@struct
class Listener:
    name: String
    host: String
    port: UInt16
    security_protocol: Int16


@struct
class Feature:
    name: String
    min_supported_version: Int16
    max_supported_version: Int16


@message(api_key=62, versions="0-4", flexible="0+")
class BrokerRegistrationRequest(Request["BrokerRegistrationResponse"]):
    broker_id: Int32
    cluster_id: String
    incarnation_id: Uuid
    listeners: list[Listener]
    features: list[Feature]
    rack: String | None
    is_migrating_zk_broker: Annotated[Bool, Since(1)] = False
    log_dirs: Annotated[list[Uuid], Since(2), IGNORABLE] = field(default_factory=list)
    previous_broker_epoch: Annotated[Int64, Since(3), IGNORABLE] = -1


@message(api_key=62, versions="0-4", flexible="0+")
class BrokerRegistrationResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    broker_epoch: Int64 = -1
