"""The faults that `python -m tests.planted_faults` plants, and the tests that must fail with each."""

from tests.faults.fault import Fault
from tests.faults.faults_all_over import ALL_OVER
from tests.faults.faults_of_compression import COMPRESSION
from tests.faults.faults_of_exports import EXPORTS
from tests.faults.faults_of_long_texts import LONG_TEXTS
from tests.faults.faults_of_losses import LOSSES
from tests.faults.faults_of_methods import METHODS
from tests.faults.faults_of_search import SEARCH

FAULTS: tuple[Fault, ...] = (*ALL_OVER, *LOSSES, *METHODS, *COMPRESSION, *EXPORTS, *LONG_TEXTS, *SEARCH)
