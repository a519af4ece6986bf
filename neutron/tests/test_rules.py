from types import SimpleNamespace

import pytest

from sluice_neutron.rules import sla_of


def rule(kind, **values):
    return SimpleNamespace(id="r", rule_type=kind, **values)


def test_all_that_is_kept():
    sla, notes = sla_of(
        [
            rule("bandwidth_limit", direction="egress", max_kbps=2_000_000, max_burst_kbps=1),
            rule("bandwidth_limit", direction="ingress", max_kbps=3_000_000, max_burst_kbps=1),
            rule("minimum_bandwidth", direction="egress", min_kbps=1_000_000),
            rule("packet_rate_limit", direction="egress", max_kpps=100, max_burst_kpps=1),
            rule("packet_rate_limit", direction="ingress", max_kpps=200, max_burst_kpps=1),
            rule("minimum_packet_rate", direction="any", min_kpps=50),
        ]
    )
    assert not notes
    assert sla == {
        "limit": {"bits_per_second": 2e9, "packets_per_second": 100e3},
        "receive": {"bits_per_second": 3e9, "packets_per_second": 200e3},
        "guarantee": {"bits_per_second": 1e9, "packets_per_second": 50e3},
    }


@pytest.mark.parametrize(
    "one",
    [
        rule("minimum_bandwidth", direction="ingress", min_kbps=1),
        rule("minimum_packet_rate", direction="ingress", min_kpps=1),
        rule("dscp_marking", dscp_mark=10),
        rule("something_new", direction="egress"),
    ],
)
def test_what_is_not_kept_is_said(one):
    sla, notes = sla_of([one])
    assert sla == {} and len(notes) == 1 and one.rule_type in notes[0]


def test_nothing():
    assert sla_of([]) == ({}, [])
    assert sla_of([rule("bandwidth_limit", direction="egress", max_kbps=0)]) == ({}, [])
