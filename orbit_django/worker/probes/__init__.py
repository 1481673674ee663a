"""What a worker tells those who watch it: whether it lives, whether it is ready, and what it counted.

Health follows progress: it is read from what the rooms last succeeded in. No answer asks the database or the runtime
anything, so that it comes at once while either hangs (W10).
"""
