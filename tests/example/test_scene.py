import argparse

import pytest

from example_project.demo import processes
from example_project.demo.scene import Scene


@pytest.mark.parametrize("token", ["-begins-like-an-option", "plain"])
def test_a_token_reaches_the_runtime_whatever_it_begins_with(tmp_path, token):
    scene = Scene(tmp_path, 1, admin_token=token, worker_token=f"{token}2")
    child = processes.runtime(scene)
    parser = argparse.ArgumentParser()
    parser.add_argument("--token")
    parser.add_argument("--worker-token")
    found, _ = parser.parse_known_args(child.arguments)
    assert (found.token, found.worker_token) == (token, f"{token}2")


def test_tokens_are_made_of_digits_and_letters_alone(tmp_path):
    scene = Scene(tmp_path, 1)
    assert (scene.admin_token + scene.worker_token).isalnum()
    assert scene.admin_token != scene.worker_token
