"""Dual training: a teacher that learns the student's small vocabulary while the student learns from it (Zhao et al.)."""
