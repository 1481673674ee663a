"""Celery with its results in the database; connections of threads are kept, tasks are acknowledged when done."""

from benchmarks.peers.redis_url import PREFIX, URL

APPS = ["benchmarks.work", "django_celery_results"]
CELERY_BROKER_URL = URL
CELERY_BROKER_TRANSPORT_OPTIONS = {"global_keyprefix": f"{PREFIX}:celery:"}
CELERY_RESULT_BACKEND = "django-db"
CELERY_TASK_ACKS_LATE = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 4
CELERY_TASK_DEFAULT_QUEUE = "bench"
