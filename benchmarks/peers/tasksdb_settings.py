"""Django's tasks with the backend that keeps them in the database."""

APPS = ["django_tasks", "django_tasks_db", "benchmarks.work"]
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}
