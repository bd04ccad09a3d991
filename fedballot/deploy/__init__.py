"""A real federation: one server and sites on machines of their own, over gRPC with TLS and node authentication."""
