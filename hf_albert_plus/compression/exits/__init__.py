"""Runs that stop early: when a row may leave, models that let it, and thresholds that hold a score."""

from .calibration import Calibrated, calibrate
from .criteria import Criterion, taken_exits
from .running import run_with_exits
from .stage import CalibrateSettings, calibrate_exits

__all__ = [
    "CalibrateSettings",
    "Calibrated",
    "Criterion",
    "calibrate",
    "calibrate_exits",
    "run_with_exits",
    "taken_exits",
]
