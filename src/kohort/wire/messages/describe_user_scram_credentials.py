"""DescribeUserScramCredentials: list users and the SCRAM mechanisms of their credentials (KIP-554)."""

from kohort.wire.codec import Int8, Int16, Int32, Message, NullableString, String, Struct, array, message, struct


@struct
class UserName(Struct):
    """A user."""

    name: String = ""


@message(key=50, versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsRequest(Message):
    """Describe the credentials of users; null or none for all."""

    users: list[UserName] | None = array()


@struct
class CredentialInfo(Struct):
    """Mechanism (1: SCRAM-SHA-256, 2: SCRAM-SHA-512) and number of iterations of a credential."""

    mechanism: Int8 = 0
    iterations: Int32 = 0


@struct
class DescribeUserScramCredentialsResult(Struct):
    """Credentials of one user."""

    user: String = ""
    error_code: Int16 = 0
    error_message: NullableString = None
    credential_infos: list[CredentialInfo] = array()


@message(key=50, versions=(0, 0), flexible=0)
class DescribeUserScramCredentialsResponse(Message):
    """Credentials of each user. It never contains salts or keys."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    results: list[DescribeUserScramCredentialsResult] = array()
