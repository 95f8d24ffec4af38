"""One run of vLLM on the CPU, given all requests at once. Threads are bound by VLLM_CPU_OMP_THREADS_BIND before it starts."""
import os

import one_run


def load(settings, requests):
    os.environ["VLLM_CPU_KVCACHE_SPACE"] = str(settings["cache_gb"])
    os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "|".join([f"0-{settings['threads'] - 1}"])
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "1" if settings["own_process"] else "0"
    os.environ["VLLM_NO_USAGE_STATS"] = "1"
    os.environ["HF_HUB_OFFLINE"] = "1"
    import vllm  # reads these variables
    engine = vllm.LLM(model=settings["model"], dtype="bfloat16", max_num_seqs=settings["max_num_seqs"],
                      max_num_batched_tokens=settings["max_num_batched_tokens"], enforce_eager=settings["enforce_eager"],
                      enable_prefix_caching=False, max_model_len=max(r["max_tokens"] for r in requests) + 1100,
                      disable_log_stats=True)

    def answer(requests):
        parameters = [vllm.SamplingParams(temperature=0, ignore_eos=True, max_tokens=r["max_tokens"]) for r in requests]
        outputs = engine.generate([r["prompt"] for r in requests], parameters, use_tqdm=False)
        return [{"text": o.outputs[0].text, "prompt_tokens": len(o.prompt_token_ids),
                 "completion_tokens": len(o.outputs[0].token_ids)} for o in outputs]
    return answer


if __name__ == "__main__":
    one_run.main(load)
