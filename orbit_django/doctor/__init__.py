"""What ``orbit_doctor`` looks at: the project, the runtime and the databases, one finding for each question.

Nothing is written or left behind anywhere. What is away is said to be, and the rest is looked at all the same.
"""
