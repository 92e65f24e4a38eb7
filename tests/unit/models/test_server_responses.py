"""What model servers say about their models, parsed."""

import json

from choir_models.servers.model_server import ModelServer, ServedModel, longer_context_command
from choir_models.servers.responses import (
    llamacpp_models,
    lmstudio_models,
    ollama_details,
    ollama_models,
    vllm_models,
)

TAGS = b'{"models":[{"name":"qwen3:8b","size":5},{"name":"gemma3:latest"}]}'


def test_an_ollama_model_has_the_context_length_that_it_was_loaded_with() -> None:
    running = b'{"models":[{"name":"qwen3:8b","context_length":4096}]}'
    assert ollama_models(TAGS, running) == (
        ServedModel("qwen3:8b", context_length=4_096, is_loaded=True),
        ServedModel("gemma3:latest"),
    )


def test_what_ollama_shows_about_a_model_completes_it() -> None:
    show = {
        "parameters": 'stop "x"\nnum_ctx                        16384',
        "capabilities": ["completion", "tools", "vision"],
        "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40_960},
    }
    described = ollama_details(ServedModel("qwen3:8b"), json.dumps(show).encode())
    assert described == ServedModel("qwen3:8b", 16_384, 40_960, calls_tools=True, sees=True)
    loaded = ServedModel("qwen3:8b", context_length=8_192, is_loaded=True)
    assert ollama_details(loaded, json.dumps(show).encode()).context_length == 8_192


def test_the_tag_latest_may_be_omitted_for_ollama_only() -> None:
    models = ollama_models(TAGS, b"") or ()
    assert ModelServer("ollama", "http://x", models).find("gemma3") == ServedModel("gemma3:latest")
    assert ModelServer("vllm", "http://x", models).find("gemma3") is None


def test_llamacpp_tells_the_context_of_one_slot() -> None:
    properties = {
        "default_generation_settings": {"n_ctx": 8_192},
        "total_slots": 4,
        "chat_template_caps": {"supports_tools": True},
        "modalities": {"vision": False, "audio": False},
    }
    listed = {"data": [{"id": "q.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131_072}}]}
    assert llamacpp_models(json.dumps(properties).encode(), json.dumps(listed).encode()) == (
        ServedModel("q.gguf", 8_192, 131_072, calls_tools=True, is_loaded=True, sees=False),
    )


def test_vllm_tells_the_longest_sequence_of_each_model() -> None:
    listed = b'{"object":"list","data":[{"id":"Qwen/Q","owned_by":"vllm","max_model_len":32768}]}'
    assert vllm_models(listed) == (ServedModel("Qwen/Q", 32_768, is_loaded=True),)


def test_lmstudio_tells_the_loaded_length_and_embedding_models_are_left_out() -> None:
    listed = {
        "data": [
            {"id": "e", "type": "embeddings", "state": "loaded", "max_context_length": 512},
            {
                "id": "q",
                "type": "llm",
                "state": "loaded",
                "max_context_length": 131_072,
                "loaded_context_length": 4_096,
                "capabilities": ["tool_use"],
            },
        ]
    }
    assert lmstudio_models(json.dumps(listed).encode()) == (
        ServedModel("q", 4_096, 131_072, calls_tools=True, is_loaded=True, sees=False),
    )


def test_another_program_is_no_model_server() -> None:
    for body in (b"", b"<html>", b"[]", b"null", b'{"models":7}', b'{"data":[{"name":1}]}'):
        assert ollama_models(body, body) is None
        assert lmstudio_models(body) is None
        assert llamacpp_models(body, body) is None
        assert vllm_models(body) is None
    # a list of models without any length, as most compatible proxies send it
    assert vllm_models(b'{"data":[{"id":"gpt-5"}]}') is None


def test_an_impossible_length_counts_as_none() -> None:
    for length in (0, -1, True, "8192", 1e9, 10**12):
        listed = json.dumps({"models": [{"name": "m", "context_length": length}]}).encode()
        assert ollama_models(listed, listed) == (ServedModel("m:latest", is_loaded=True),)


def test_the_command_for_a_longer_context_names_model_and_length() -> None:
    assert "OLLAMA_CONTEXT_LENGTH=32768" in longer_context_command("ollama", "m", 32_768)
    assert "--ctx-size 32768" in longer_context_command("llamacpp", "m", 32_768)
    assert "serve m --max-model-len 32768" in longer_context_command("vllm", "m", 32_768)
    assert "load m --context-length 32768" in longer_context_command("lmstudio", "m", 32_768)
