"""The GGUF files that llama.cpp and OpenVINO GenAI read, by llama.cpp's own quantisation. SOURCE TYPE TARGET, in the
environment `llama`."""
import sys

import llama_cpp

TYPES = {"f16": llama_cpp.LLAMA_FTYPE_MOSTLY_F16, "bf16": llama_cpp.LLAMA_FTYPE_MOSTLY_BF16,
         "q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0, "q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0}

source, kind, target = sys.argv[1:]
parameters = llama_cpp.llama_model_quantize_default_params()
parameters.ftype = TYPES[kind]
parameters.allow_requantize = True
if llama_cpp.llama_model_quantize(source.encode(), target.encode(), parameters) != 0:
    sys.exit(f"llama.cpp could not make {kind} of {source}")
