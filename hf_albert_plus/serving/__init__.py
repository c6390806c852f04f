"""Serving over HTTP, on Ray Serve. `server.Server` needs the extra `serve`; what batch scoring shares with it does not."""
