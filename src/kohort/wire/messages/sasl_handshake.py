"""SaslHandshake: choose the SASL mechanism of a connection (KIP-43)."""

from kohort.wire.codec import Int16, Message, String, array, message


@message(key=17, versions=(0, 1))
class SaslHandshakeRequest(Message):
    """Choose a mechanism. From version 1, its tokens follow in SaslAuthenticate requests (KIP-152).

    After version 0, each token follows as bare bytes with their length in front.
    """

    mechanism: String = ""


@message(key=17, versions=(0, 1))
class SaslHandshakeResponse(Message):
    """The mechanisms that the listener offers."""

    error_code: Int16 = 0
    mechanisms: list[String] = array()
