"""Celery with its results in the database: connections are kept, tasks are acknowledged when they are done.

Its pool is made of processes. With a pool of threads over Redis it stopped taking tasks after some hundreds, whatever
the settings.
"""

from benchmarks.peers.redis_url import PREFIX, URL

APPS = ["benchmarks.work", "django_celery_results"]
CELERY_BROKER_URL = URL
CELERY_BROKER_TRANSPORT_OPTIONS = {"global_keyprefix": f"{PREFIX}:celery:"}
CELERY_RESULT_BACKEND = "django-db"
CELERY_TASK_ACKS_LATE = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 4
CELERY_TASK_DEFAULT_QUEUE = "bench"
