"""`levada features`."""

from tests.tools.scenario import File, Scenario, Step

EPOCH = ((r'(Epoch: |"epoch": )\d+', r"\1N"),)

AT = "features --bootstrap-server {server}"

SCENARIOS = [
    Scenario("features", "describing", [
        File("client.properties", "request.timeout.ms=9000\n"),
        Step(f"{AT} describe"),
        Step(f"{AT} --command-config {{directory}}/client.properties describe --node-id 1"),
        Step(f"{AT} describe --json", only_ours=True),
        Step(f"{AT} version-mapping"),
        Step(f"{AT} version-mapping --release-version 4.1"),
        Step(f"{AT} version-mapping --release-version 4.1-IV0"),
        Step(f"{AT} version-mapping --release-version 4.0.1"),
        Step(f"{AT} version-mapping --release-version 3.3"),
        Step(f"{AT} version-mapping --release-version 4.4-IV0"),
        Step(f"{AT} version-mapping --release-version 4.2 --json", only_ours=True),
        Step(f"{AT} feature-dependencies --feature eligible.leader.replicas.version=1 --feature metadata.version=8"),
        Step(f"{AT} feature-dependencies --feature eligible.leader.replicas.version=0 --feature transaction.version=2"),
        Step(f"{AT} feature-dependencies --feature ' group.version = 1 '"),
        Step(f"{AT} feature-dependencies --feature eligible.leader.replicas.version=1 --json", only_ours=True),
    ], masks=EPOCH),
    Scenario("features", "refusing", [
        Step(f"{AT} upgrade", fails=True),
        Step(f"{AT} upgrade --feature no.such.feature=3", fails=True),
        Step(f"{AT} upgrade --feature no.such.feature=3 --dry-run", fails=True),
        Step(f"{AT} upgrade --feature group.version", fails=True),
        Step(f"{AT} upgrade --feature group.version=one", fails=True),
        Step(f"{AT} upgrade --feature group.version=1 --feature group.version=1", fails=True),
        Step(f"{AT} upgrade --release-version 4.1 --feature group.version=1", fails=True),
        Step(f"{AT} upgrade --release-version 2.0", fails=True),
        Step(f"{AT} upgrade --metadata 4.9", fails=True),
        Step(f"{AT} downgrade --feature no.such.feature=3 --unsafe", fails=True),
        Step(f"{AT} downgrade --release-version 5.0 --dry-run", fails=True),
        Step(f"{AT} disable --feature no.such.feature --dry-run", fails=True),
        Step(f"{AT} disable --feature no.such.feature --unsafe", fails=True),
        Step(f"{AT} disable", fails=True),
        Step(f"{AT} describe --node-id -1", fails=True),
        Step(f"{AT} version-mapping --release-version 1.0", fails=True),
        Step(f"{AT} feature-dependencies", fails=True),
        Step(f"{AT} feature-dependencies --feature no.such.feature=1", fails=True),
        Step(f"{AT} feature-dependencies --feature group.version=7", fails=True),
        Step(f"{AT} feature-dependencies --feature metadata.version=77", fails=True),
    ]),
]  # fmt: skip
