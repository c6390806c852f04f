"""Targets under load: real sentences as traffic, a server beside its engine, and the plan of how many servers."""
