"""How sites talk: frames over Arrow Flight with mutual TLS, connections that come back, links that are emulated."""

import os

# gRPC writes a line to the terminal for every handshake that fails; situ says the same once, in its own words.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
