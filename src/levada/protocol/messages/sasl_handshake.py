"""SaslHandshake (api key 17), every version."""

from levada.protocol.declare import Int16, Request, String, message


@message(api_key=17, versions="0-1")
class SaslHandshakeRequest(Request["SaslHandshakeResponse"]):
    mechanism: String


@message(api_key=17, versions="0-1")
class SaslHandshakeResponse:
    error_code: Int16 = 0
    mechanisms: list[String]
