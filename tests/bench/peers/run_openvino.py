"""One run of OpenVINO GenAI: its pipeline of continuous batching, given all requests at once."""
import openvino_genai

import one_run


def load(settings, requests):
    del requests
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size = settings["cache_gb"]
    scheduler.enable_prefix_caching = False
    scheduler.max_num_seqs = settings["max_num_seqs"]
    scheduler.max_num_batched_tokens = settings["max_num_batched_tokens"]
    scheduler.dynamic_split_fuse = settings["dynamic_split_fuse"]
    properties = {"INFERENCE_PRECISION_HINT": settings["precision"], "INFERENCE_NUM_THREADS": settings["threads"]}
    for key in ("KV_CACHE_PRECISION", "DYNAMIC_QUANTIZATION_GROUP_SIZE"):
        if settings.get(key) is not None:
            properties[key] = settings[key]
    pipeline = openvino_genai.ContinuousBatchingPipeline(settings["model"], scheduler, "CPU", properties)
    tokenizer = pipeline.get_tokenizer()

    def answer(requests):
        prompts = [tokenizer.encode(r["prompt"], add_special_tokens=False).input_ids for r in requests]
        handles = [pipeline.add_request(i, ids, config_of(r)) for i, (r, ids) in enumerate(zip(requests, prompts))]
        while pipeline.has_non_finished_requests():
            pipeline.step()
        answers = []
        for handle, ids in zip(handles, prompts):
            output = handle.read_all()[0].generated_ids
            answers.append({"text": tokenizer.decode(output), "prompt_tokens": ids.shape[1], "completion_tokens": len(output)})
        return answers
    return answer


def config_of(request):
    config = openvino_genai.GenerationConfig()
    config.do_sample = False
    config.ignore_eos = True
    config.max_new_tokens = request["max_tokens"]
    config.apply_chat_template = False
    return config


if __name__ == "__main__":
    one_run.main(load)
