"""For tests of plugins and of programs on ClawHive: a scripted model, a hive, conformance suites.

The public names are those imported below; each is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clawhive_core.testing.adapter import Wire as Wire
    from clawhive_core.testing.adapter import WireReport as WireReport
    from clawhive_core.testing.adapter import check_adapter as check_adapter
    from clawhive_core.testing.adapter import check_wire as check_wire
    from clawhive_core.testing.ledger import check_ledger as check_ledger
    from clawhive_core.testing.memory import memory_hive as memory_hive
    from clawhive_core.testing.memory_ledger import MemoryLedger as MemoryLedger
    from clawhive_core.testing.memory_ledger import MemoryStore as MemoryStore
    from clawhive_core.testing.policy import check_policy as check_policy
    from clawhive_core.testing.provider import check_provider as check_provider
    from clawhive_core.testing.recordings import Exchange as Exchange
    from clawhive_core.testing.recordings import Recording as Recording
    from clawhive_core.testing.recordings import read_recordings as read_recordings
    from clawhive_core.testing.scripted import ScriptedModel as ScriptedModel
    from clawhive_core.testing.scripted import calling as calling
    from clawhive_core.testing.wire_faults import check_faults as check_faults
    from clawhive_core.testing.wire_kinds import wire_kinds as wire_kinds
    from clawhive_core.testing.wire_kinds import wire_misfits as wire_misfits
    from clawhive_core.testing.wire_kinds import wire_samples as wire_samples
    from clawhive_core.testing.wire_server import WireAnswer as WireAnswer
    from clawhive_core.testing.wire_server import WireRequest as WireRequest
    from clawhive_core.testing.wire_server import WireServer as WireServer
else:
    from clawhive_core.model.lazy import lazy_names

    __getattr__ = lazy_names(__name__)
