"""One run of llama.cpp: a loop of continuous batching over its C interface, since its Python class serves one sequence at a
time. Prompts enter as sequences end; every batch holds a token of each running sequence, then pieces of prompts."""
import ctypes

import llama_cpp
import numpy

import one_run

KV_TYPES = {"f16": llama_cpp.GGML_TYPE_F16, "bf16": 30, "q8_0": llama_cpp.GGML_TYPE_Q8_0}  # 30: as in ggml.h


class Engine:
    def __init__(self, settings, requests):
        llama_cpp.llama_backend_init()
        parameters = llama_cpp.llama_model_default_params()
        parameters.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(settings["model"].encode(), parameters)
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.num_ids = llama_cpp.llama_vocab_n_tokens(self.vocab)
        self.slots = min(settings["parallel"], len(requests))
        longest = max(len(self.tokenize(r["prompt"])) + r["max_tokens"] for r in requests)
        self.batch_tokens = max(settings["batch"], self.slots)
        self.context = self.make_context(settings, longest)
        self.batch = llama_cpp.llama_batch_init(self.batch_tokens, 0, 1)

    def make_context(self, settings, longest):
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_seq_max = self.slots
        parameters.n_ctx = self.slots * ((longest + 255) // 256 * 256)
        parameters.n_batch = self.batch_tokens
        parameters.n_ubatch = settings["ubatch"]
        parameters.n_threads = parameters.n_threads_batch = settings["threads"]
        parameters.type_k = parameters.type_v = KV_TYPES[settings["kv"]]
        parameters.flash_attn_type = (llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED if settings["flash_attention"]
                                      else llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED)
        parameters.kv_unified = settings["kv_unified"]
        context = llama_cpp.llama_init_from_model(self.model, parameters)
        if not context:
            raise RuntimeError("llama.cpp made no context")
        return context

    def tokenize(self, text):
        data = text.encode()
        ids = (llama_cpp.llama_token * (len(data) + 8))()
        count = llama_cpp.llama_tokenize(self.vocab, data, len(data), ids, len(ids), True, False)
        return list(ids[:count])

    def detokenize(self, ids):
        array = (llama_cpp.llama_token * len(ids))(*ids)
        text = ctypes.create_string_buffer(16 * len(ids) + 16)
        size = llama_cpp.llama_detokenize(self.vocab, array, len(ids), text, len(text), False, False)
        return text.raw[:size].decode(errors="replace")

    def answer(self, requests):
        waiting = list(reversed([Sequence(r, self.tokenize(r["prompt"])) for r in requests]))
        sequences = waiting[::-1]
        free, running = list(range(self.slots)), []
        while waiting or running:
            while waiting and free:
                running.append(waiting.pop())
                running[-1].slot = free.pop()
            self.step(running)
            for sequence in [s for s in running if s.is_done()]:
                llama_cpp.llama_memory_seq_rm(llama_cpp.llama_get_memory(self.context), sequence.slot, -1, -1)
                free.append(sequence.slot)
                running.remove(sequence)
        return [{"text": self.detokenize(s.output), "prompt_tokens": len(s.prompt), "completion_tokens": len(s.output)}
                for s in sequences]

    def step(self, running):
        """One batch: decoding sequences first, then prompts as far as there is room."""
        self.batch.n_tokens = 0
        sampled = []
        for sequence in sorted(running, key=lambda s: not s.output):
            room = self.batch_tokens - self.batch.n_tokens
            tokens = sequence.next_tokens(room)
            for token in tokens:
                self.add(token, sequence)
            if tokens and sequence.has_all():
                self.batch.logits[self.batch.n_tokens - 1] = 1
                sampled.append(sequence)
        status = llama_cpp.llama_decode(self.context, self.batch)
        if status != 0:
            raise RuntimeError(f"llama_decode failed with {status}")
        if sampled:
            logits = numpy.ctypeslib.as_array(llama_cpp.llama_get_logits(self.context), (len(sampled), self.num_ids))
            for sequence, token in zip(sampled, logits.argmax(axis=1)):
                sequence.output.append(int(token))

    def add(self, token, sequence):
        i = self.batch.n_tokens
        self.batch.token[i] = token
        self.batch.pos[i] = sequence.position
        self.batch.n_seq_id[i] = 1
        self.batch.seq_id[i][0] = sequence.slot
        self.batch.logits[i] = 0
        self.batch.n_tokens = i + 1
        sequence.position += 1


class Sequence:
    def __init__(self, request, prompt):
        self.prompt = prompt
        self.limit = request["max_tokens"]
        self.output = []
        self.position = 0
        self.slot = None

    def next_tokens(self, room):
        if self.output:
            return self.output[-1:]
        return self.prompt[self.position:self.position + room]

    def has_all(self):
        return self.position >= len(self.prompt)

    def is_done(self):
        return len(self.output) == self.limit


if __name__ == "__main__":
    one_run.main(lambda settings, requests: Engine(settings, requests).answer)
