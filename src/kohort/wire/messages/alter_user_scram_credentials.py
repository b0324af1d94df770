"""AlterUserScramCredentials: set and delete SCRAM credentials of users (KIP-554)."""

from kohort.wire.codec import (
    Bytes,
    Int8,
    Int16,
    Int32,
    Message,
    NullableString,
    SecretBytes,
    String,
    Struct,
    array,
    message,
    struct,
)


@struct
class ScramCredentialDeletion(Struct):
    """A credential to delete."""

    name: String = ""
    mechanism: Int8 = 0


@struct
class ScramCredentialUpsertion(Struct):
    """A credential to set. The password is salted by the client, so the broker never receives it."""

    name: String = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: Bytes = b""
    salted_password: SecretBytes = b""


@message(key=51, versions=(0, 0), flexible=0)
class AlterUserScramCredentialsRequest(Message):
    """Set and delete credentials."""

    deletions: list[ScramCredentialDeletion] = array()
    upsertions: list[ScramCredentialUpsertion] = array()


@struct
class AlterUserScramCredentialsResult(Struct):
    """Result for one user."""

    user: String = ""
    error_code: Int16 = 0
    error_message: NullableString = None


@message(key=51, versions=(0, 0), flexible=0)
class AlterUserScramCredentialsResponse(Message):
    """Result for each user."""

    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult] = array()
