"""Processes that write in transactions: one for itself, or several that commit together."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from levada.model.error_codes import ErrorCode
from levada.protocol.messages.group_commit import GroupCommitMember, GroupCommitRequest
from levada.sim.actors.actor import Actor
from levada.sim.actors.transactional_producer import (
    ABORTABLE,
    CALL_SECONDS,
    FENCED,
    MAY_HAVE_HAPPENED,
    TRY_AGAIN,
    Fenced,
    MustAbort,
    Style,
    TransactionalProducer,
)
from levada.sim.checkers import CheckFailed
from levada.sim.checkers.transaction_history import TransactionHistory
from levada.sim.requests.connections import RETRY_SECONDS, Caller
from levada.world.world import World

PARTITIONS = 3
SIZES = (0, 10, 400)


@dataclass(frozen=True, slots=True)
class InstancePlan:
    """What an instance is told before it begins; one with several ids commits them together."""

    name: str
    transactional_ids: tuple[str, ...]
    styles: tuple[Style, ...]


class Instance(Actor):
    """One process. It lives until it is fenced, killed, or told to stop."""

    def __init__(
        self,
        world: World,
        broker: tuple[str, int],
        history: TransactionHistory,
        chance: random.Random,
        plan: InstancePlan,
        before_decision: Callable[[int], None],
    ) -> None:
        super().__init__(plan.name, chance)
        self._caller = Caller(world, *broker)
        self._before_decision = before_decision
        self._offset = 0
        self._producers = [
            TransactionalProducer(partial(Caller, world, *broker), history, chance, plan.name, transactional_id, style)
            for transactional_id, style in zip(plan.transactional_ids, plan.styles)
        ]

    async def run(self) -> None:
        try:
            while not self.must_stop:
                await self._transact()
                await asyncio.sleep(self.chance.random() * 0.1)
        except Fenced:
            pass
        self.is_over = True

    async def _transact(self) -> None:
        """One transaction of each producer; in the end all are committed or all are aborted."""
        try:
            for producer in self._producers:
                await self._breathe()
                await producer.begin()
            for _ in range(self.chance.randint(1, 3)):
                for producer in self._producers:
                    await self._work(producer)
            await self._breathe()
            draw = self.chance.random()
            if draw < 0.1:
                # Left open, perhaps for longer than it may be; what it then asks for may be refused.
                await asyncio.sleep(self.chance.random() * 10)
            if draw > 0.25:
                await self._commit()
                return
        except MustAbort:
            pass
        await self._abort()

    async def _work(self, producer: TransactionalProducer) -> None:
        await self._breathe()
        if not self.chance.randrange(4):
            self._offset += 1
            await producer.commit_offset(self._offset)
        partitions = self.chance.sample(range(PARTITIONS), self.chance.choice((1, 1, 2, 3)))
        await producer.write(
            {one: [self.chance.choice(SIZES) for _ in range(self.chance.randint(1, 3))] for one in partitions}
        )

    async def _commit(self) -> None:
        self._before_decision(len(self._producers))
        if len(self._producers) == 1:
            await self._producers[0].end(commits=True)
        else:
            await self._commit_together()

    async def _abort(self) -> None:
        for producer in self._producers:
            await self._breathe()
            if producer.attempt is not None:
                await producer.end(commits=False)

    async def _commit_together(self) -> None:
        members = [
            GroupCommitMember(
                transactional_id=one.transactional_id, producer_id=one.producer_id, producer_epoch=one.producer_epoch
            )
            for one in self._producers
        ]
        attempts = [one.attempt for one in self._producers if one.attempt is not None]
        assert len(attempts) == len(members)
        for attempt in attempts:
            attempt.mates = attempts
            attempt.ask()
        may_have_happened = False
        while True:
            sent_s = self.now_s
            # The coordinator recognises a repeated request in any order.
            self.chance.shuffle(members)
            reply = await self._caller.ask(GroupCommitRequest(members=members), 0, self.chance.choice(CALL_SECONDS))
            code = None if reply is None else ErrorCode(reply.error_code)
            if reply is not None and code is ErrorCode.NONE:
                break
            if reply is not None and code in FENCED | ABORTABLE:
                self._check_refusal({one.transactional_id: one.error_code for one in reply.results})
                if not may_have_happened:
                    for attempt in attempts:
                        attempt.abort()
                    raise MustAbort
                # No answer says whether it happened; the next instance begins anew.
                raise Fenced
            if code is not None and code not in TRY_AGAIN:
                raise CheckFailed(f"{self.name} cannot commit: {code.name}")
            may_have_happened |= code is None or code in MAY_HAVE_HAPPENED
            for producer in self._producers:
                producer.was_unheard = True
            await asyncio.sleep(RETRY_SECONDS)
        now_s = self.now_s
        results = {one.transactional_id: one for one in reply.results}
        for producer, attempt in zip(self._producers, attempts):
            if not may_have_happened:
                producer.check_committed(sent_s)
            attempt.commit(now_s)
            result = results[producer.transactional_id]
            producer.go_on(result.producer_id, result.producer_epoch)

    def _check_refusal(self, codes: dict[str, int]) -> None:
        """A member that was not the reason must not be told one."""
        if not any(codes.values()):
            raise CheckFailed(f"{self.name} was refused for no member")
        for producer in self._producers:
            producer.check_refusal(codes[producer.transactional_id])

    async def _breathe(self) -> None:
        """Stand still if that was ordered; the world goes on, and perhaps with another in this one's place."""
        seconds, self.pause_seconds = self.pause_seconds, 0.0
        await asyncio.sleep(seconds + self.chance.random() * 0.02)
