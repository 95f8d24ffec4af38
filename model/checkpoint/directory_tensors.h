// The tensors of a Hugging Face directory, each put together from canonical ones: the way back from
// what opening a directory undoes (stored_layout.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/stored_layout.h"
#include "model/families/family.h"

namespace headrace {

/// Rows of a canonical matrix, or values of a canonical vector, in a directory's tensor.
struct DirectoryPart {
  std::string canonical;
  std::int64_t first = 0;  // of them
  std::int64_t rows = 0;
  RowRuns runs;  // where they lie, as if nothing were transposed
};

struct DirectoryTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // as it is stored
  std::string type;                 // "F32", "BF16", "F16"
  StoredForm form = StoredForm::kPlain;
  std::vector<DirectoryPart> parts;
};

/// All of them, in order of name as transformers writes them, in types that keep every value of the
/// model; quantised values have the type that --dtype auto computes with.
std::vector<DirectoryTensor> directory_tensors(const Checkpoint& model, const Family& family);

}  // namespace headrace
