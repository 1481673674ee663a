"""The work that every case does: one business row for each task."""
