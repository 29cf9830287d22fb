"""SCRAM credentials of users: which there are, set, deleted."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from levada.client.admin.kinds import ScramMechanism
from levada.client.admin.outcomes import Outcomes
from levada.client.admin.part import AdminPart
from levada.client.admin.request_router import BrokerAnswer, Question, check, verdict
from levada.client.errors import KafkaError
from levada.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from levada.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

SALT_BYTES = 32
HASHES = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """That a user has a password, not which."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A user's new password; only what is computed from it leaves this process."""

    user: str
    password: str = field(repr=False)
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512
    iterations: int = 4_096
    salt: bytes | None = None
    """Chosen at random where it is not given."""


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    user: str
    mechanism: ScramMechanism


class ScramPart(AdminPart):
    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, timeout_ms: float | None = None
    ) -> Outcomes[str, tuple[ScramCredential, ...]]:
        """The credentials of users, or of all who have any."""
        wanted = None if users is None else list(dict.fromkeys(users))
        question: Question[
            str, dict[str, tuple[ScramCredential, ...] | KafkaError], DescribeUserScramCredentialsResponse
        ] = Question(
            what="to describe SCRAM credentials",
            route=self._routing.any,
            request=lambda _, __: DescribeUserScramCredentialsRequest(
                users=None if wanted is None else [UserName(name=user) for user in wanted]
            ),
            read=_read_described,
        )
        found = await self._requests.one(question, self._requests.deadline(timeout_ms))
        return Outcomes(found)

    async def alter_user_scram_credentials(
        self, changes: Iterable[ScramUpsertion | ScramDeletion], *, timeout_ms: float | None = None
    ) -> Outcomes[str, None]:
        """Set and delete credentials; all that is asked for one user is done, or nothing.

        >>> (await admin.alter_user_scram_credentials([ScramUpsertion("alice", "secret")])).raise_any()
        """
        upsertions: list[ScramCredentialUpsertion] = []
        deletions: list[ScramCredentialDeletion] = []
        for change in changes:
            if isinstance(change, ScramDeletion):
                deletions.append(ScramCredentialDeletion(name=change.user, mechanism=change.mechanism))
            else:
                upsertions.append(self._upsertion(change))
        users = dict.fromkeys([one.name for one in upsertions] + [one.name for one in deletions])
        question: Question[str, None, AlterUserScramCredentialsResponse] = Question(
            what="to alter SCRAM credentials",
            route=self._routing.controller,
            request=lambda names, _: AlterUserScramCredentialsRequest(
                deletions=[one for one in deletions if one.name in names],
                upsertions=[one for one in upsertions if one.name in names],
            ),
            read=_read_altered,
        )
        return await self._requests.each(users, question, self._requests.deadline(timeout_ms))

    def _upsertion(self, change: ScramUpsertion) -> ScramCredentialUpsertion:
        salt = change.salt or self._requests.cluster.world.entropy.random_bytes(SALT_BYTES)
        return ScramCredentialUpsertion(
            name=change.user,
            mechanism=change.mechanism,
            iterations=change.iterations,
            salt=salt,
            salted_password=salted_password(change.password, change.mechanism, salt, change.iterations),
        )


def salted_password(password: str, mechanism: ScramMechanism, salt: bytes, iterations: int) -> bytes:
    """RFC 5802's SaltedPassword: Hi(password, salt, i), which is PBKDF2.

    >>> salted_password("pencil", ScramMechanism.SCRAM_SHA_256, b"salt", 4_096).hex()[:16]
    '0997564f29292327'
    """
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def _read_described(
    answer: BrokerAnswer[str, DescribeUserScramCredentialsResponse],
) -> dict[str, dict[str, tuple[ScramCredential, ...] | KafkaError]]:
    response = answer.response
    check(response.error_code, response.error_message, context=answer.items[0])
    found: dict[str, tuple[ScramCredential, ...] | KafkaError] = {}
    for result in response.results:
        credentials = tuple(
            ScramCredential(ScramMechanism(one.mechanism), one.iterations) for one in result.credential_infos
        )
        found[result.user] = verdict(result.error_code, result.error_message, f"user {result.user!r}", credentials)
    return {answer.items[0]: found}


def _read_altered(answer: BrokerAnswer[str, AlterUserScramCredentialsResponse]) -> dict[str, KafkaError | None]:
    response = answer.response
    return {
        result.user: verdict(result.error_code, result.error_message, f"user {result.user!r}", None)
        for result in response.results
    }
