"""The messages of the gRPC binding, generated from worker.proto by ``make proto``; nothing here is written by hand."""
