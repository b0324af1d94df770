"""The setting that says that transactional producers have one connection at a time, for the broker or one listener."""

from collections.abc import Mapping

from kohort.broker.config.setting import ABSENT, Setting

SINGLE_CONNECTION = "transaction.producer.single.connection"

SINGLE_CONNECTION_SETTINGS: Mapping[str, Setting] = {
    SINGLE_CONNECTION: Setting(
        False,
        "Whether each transactional producer has one connection at a time to a broker, so that requests on an older"
        " connection are late and are not carried out. Not for clients behind a proxy with several connections"
        " (docs/transactions.md). A listener may have its own value.",
        kafka=ABSENT,
    )
}
