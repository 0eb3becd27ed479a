"""Whether to believe a case: checks in two tables, reasons, and the verdict they make.

A check is a function that yields reasons. Worker checks see one worker's parsed output, case
checks the added-up case. The worst reason decides (invalid, unknown, valid; notes don't count),
and a check that crashes makes the verdict unknown. A new check is one more line in a table.
"""

from orchestrator.checks.base import (
    CaseCheck,
    CaseSubject,
    WorkerCheck,
    WorkerSubject,
    safely,
    verdict_of,
)
from orchestrator.checks.case import CASE_CHECKS, check_case
from orchestrator.checks.failures import fio_said, worker_failures
from orchestrator.checks.worker import WORKER_CHECKS, check_worker

__all__ = [
    "CASE_CHECKS",
    "WORKER_CHECKS",
    "CaseCheck",
    "CaseSubject",
    "WorkerCheck",
    "WorkerSubject",
    "check_case",
    "check_worker",
    "fio_said",
    "safely",
    "verdict_of",
    "worker_failures",
]
