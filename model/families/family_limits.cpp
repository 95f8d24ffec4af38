#include "model/families/family_limits.h"

#include <fmt/format.h>

namespace headrace {

std::string settle_heads(ModelConfig& model, const HeadKeys& keys) {
  if (model.head_dim == 0 && model.hidden_size % model.num_heads != 0) {
    return fmt::format("{} ({}) is no multiple of {} ({}), and {} is absent", keys.hidden_size,
                       model.hidden_size, keys.num_heads, model.num_heads, keys.head_dim);
  }
  if (model.head_dim == 0) model.head_dim = model.hidden_size / model.num_heads;
  if (model.head_dim % 2 != 0) {
    return fmt::format("the heads have {} dimensions; RoPE needs an even number", model.head_dim);
  }
  if (model.num_heads % model.num_kv_heads != 0) {
    return fmt::format("{} ({}) is no multiple of {} ({})", keys.num_heads, model.num_heads,
                       keys.num_kv_heads, model.num_kv_heads);
  }
  if (std::int64_t{model.num_heads} * model.head_dim > kWidth.most) {
    return fmt::format("{} heads of {} dimensions are more than {} values", model.num_heads,
                       model.head_dim, kWidth.most);
  }
  return {};
}

}  // namespace headrace
