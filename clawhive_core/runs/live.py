"""The means by which a resumed run does its missing parts."""

from __future__ import annotations

from clawhive_core.catalog.store import CatalogStore
from clawhive_core.execution.outcomes import Door
from clawhive_core.model.late import dataclass
from clawhive_core.policy.approvals import ApprovalBook
from clawhive_core.protocols.ledger import Ledger
from clawhive_core.runs.models import Models


@dataclass(frozen=True, slots=True)
class Live:
    """The means by which a resumed run does its missing parts."""

    log: Ledger
    door: Door
    models: Models
    catalog: CatalogStore
    book: ApprovalBook
