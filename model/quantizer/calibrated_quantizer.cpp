#include "model/quantizer/calibrated_quantizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <utility>

#include "kernels/observed_ops.h"
#include "model/quantizer/calibration_text.h"
#include "model/quantizer/compensated_rounding.h"
#include "model/quantizer/integer_store.h"
#include "model/quantizer/quantization_report.h"
#include "model/quantizer/quantized_linear.h"
#include "model/quantizer/rounding_quantizer.h"
#include "model/stage_model.h"
#include "model/weight_types.h"

namespace headrace {
namespace {

// Tokens of a passage: enough for attention to matter, and few enough for small contexts.
constexpr int kPassageTokens = 512;

// Rows of the head's inputs that it is measured with: a row of logits is wide.
constexpr std::int64_t kHeadSampleRows = 64;

// Rows of logits at a time.
constexpr int kLogitRows = 64;

using Tell = std::function<void(std::string_view)>;

class CalibratedQuantizer final : public MatrixQuantizer {
 public:
  CalibratedQuantizer(Checkpoint& model, ThreadPool& pool, CalibrationOptions options,
                      const Tell& tell)
      : model_(model),
        pool_(pool),
        wanted_(options.wanted),
        max_error_(options.max_layer_error),
        tell_(tell),
        text_(std::move(options.tokens),
              std::min(kPassageTokens, model.config().max_position_embeddings)),
        ops_(make_cpu_ops(DType::kBFloat16, pool)),
        float32_(make_cpu_ops(DType::kFloat32, pool)),
        observed_(make_observed_ops(*ops_,
                                    [this](const Matrix& w, ConstTensorView x) { observe(w, x); })),
        rounding_(make_rounding_quantizer(model, pool,
                                          {.wanted = options.wanted, .stochastic_seed = {}})),
        store_(options.directory),
        report_(options.wanted, options.max_layer_error),
        plain_(text_, model.config().hidden_size),
        quantized_(text_, model.config().hidden_size) {}

  void calibrate() {
    tell_(report_.begin(text_.num_tokens()));
    run_embedding();
    for (int layer = 0; layer < model_.config().num_layers; ++layer) run_layer(layer);
    run_heads();
  }

  Quantization wanted() const override { return wanted_; }
  std::string report() const override { return report_.text(); }

  Quantization type_of(const TensorInfo& tensor) const override {
    const auto found = types_.find(tensor.name);
    return found == types_.end() ? rounding_->type_of(tensor) : found->second;
  }

  void write(const std::string& tensor, const IntegerLayout& layout,
             const ByteSink& sink) override {
    if (store_.has(tensor)) {
      store_.give(tensor, sink);
    } else {
      rounding_->write(tensor, layout, sink);
    }
  }

 private:
  // A matrix of a layer: what it is made from, and where the quantised model will look for it.
  struct Role {
    const char* name;
    const LinearSource& source;
    std::unique_ptr<Matrix>& weight;
  };

  void observe(const Matrix& w, ConstTensorView x) {
    const auto found = inputs_.find(&w);
    if (found != inputs_.end()) {
      found->second.add(x);
    } else if (&w == head_ && std::ssize(head_inputs_) < kHeadSampleRows * x.cols) {
      head_inputs_.insert(head_inputs_.end(), x.u16(), x.u16() + x.cols);
    }
  }

  StageModel make_stage(const StagePart& part, StageWeights weights, Ops& ops) {
    return {model_.config(), part, std::move(weights), ops, text_.stage_size(kLogitRows)};
  }

  void run_embedding() {
    const StagePart part{.embedding = true};
    StageModel plain = make_stage(part, load_stage_weights(model_, part, *ops_, {}), *ops_);
    plain_.run(plain);
    StageModel quantized = make_stage(
        part, load_stage_weights(model_, part, *ops_, {.quantization = wanted_, .progress = {}}),
        *ops_);
    quantized_.run(quantized);
  }

  void run_layer(int layer) {
    const StagePart part{.begin_layer = layer, .end_layer = layer + 1};
    const LayerSources sources = part_sources(model_.config(), part).layers.front();
    StageWeights weights = load_stage_weights(model_, part, *ops_, {});
    const LayerWeights& plain = weights.layers.front();
    const Matrix* matrices[] = {plain.qkv.weight.get(), plain.output.weight.get(),
                                plain.gate_up.weight.get(), plain.down.weight.get()};
    inputs_.clear();
    for (const Matrix* matrix : matrices) inputs_.try_emplace(matrix, matrix->k(), *float32_);
    StageModel plain_stage = make_stage(part, std::move(weights), *observed_);
    plain_.run(plain_stage);

    StageWeights others = load_stage_weights(model_, part, *ops_, {});
    LayerWeights& other = others.layers.front();
    const Role roles[] = {{"qkv", sources.qkv, other.qkv.weight},
                          {"output", sources.output, other.output.weight},
                          {"gate_up", sources.gate_up, other.gate_up.weight},
                          {"down", sources.down, other.down.weight}};
    for (std::size_t i = 0; i < std::size(roles); ++i) quantize(layer, roles[i], *matrices[i]);
    StageModel quantized_stage = make_stage(part, std::move(others), *ops_);
    quantized_.run(quantized_stage);
    tell_(report_.add_layer(layer, error_of(plain_.values().data(), quantized_.values().data(),
                                            plain_.values().size())));
  }

  // Goes from the wanted type to wider ones until the error is small enough.
  void quantize(int layer, const Role& role, const Matrix& plain) {
    const InputStatistics& inputs = inputs_.at(&plain);
    const QuantizedLinear linear(model_, pool_, role.source);
    MatrixOutcome outcome{.layer = layer,
                          .matrix = role.name,
                          .error = {},
                          .bytes = plain_bytes(role.source.n() * role.source.k()),
                          .wanted_bytes = linear.bytes(wanted_)};
    for (const Quantization type : {Quantization::kInt4, Quantization::kInt8}) {
      if (type == Quantization::kInt4 && wanted_ != Quantization::kInt4) continue;
      QuantizedLinear::Result best = linear.rounded(type, *ops_);
      ProductError error = product_error(*ops_, plain, *best.matrix, inputs.sample());
      if (type == wanted_) outcome.rounded_error = error.relative;
      const CompensatedRounding rounding(inputs.blocks(), role.source.tree.bounds, type, pool_);
      QuantizedLinear::Result compensated = linear.compensated(rounding, type, *ops_);
      const ProductError other = product_error(*ops_, plain, *compensated.matrix, inputs.sample());
      if (other.relative < error.relative) {
        best = std::move(compensated);
        error = other;
      }
      if (max_error_ && !(error.relative <= *max_error_)) continue;
      outcome.type = type;
      outcome.error = error;
      outcome.bytes = linear.bytes(type);
      keep(role.source, std::move(best), role.weight);
      break;
    }
    for (const WeightSource& tensor : role.source.weight) types_[tensor.name] = outcome.type;
    tell_(report_.add(outcome));
  }

  void keep(const LinearSource& source, QuantizedLinear::Result result,
            std::unique_ptr<Matrix>& weight) {
    for (std::size_t i = 0; i < source.weight.size(); ++i) {
      store_.add(source.weight[i].name, result.tensors[i]);
    }
    weight = std::move(result.matrix);
  }

  std::size_t plain_bytes(std::int64_t values) const {
    return static_cast<std::size_t>(values) * dtype_bytes(model_.preferred_dtype());
  }

  std::string_view head_name() const {
    return model_.config().tied_head ? kEmbeddingName : kHeadName;
  }

  // The head's matrix, which may be the embedding's, is rounded: its rows are tokens of their own.
  void run_heads() {
    const StagePart part{.head = true};
    const LoadOptions as_wanted{.quantization = wanted_, .progress = {}};
    StageWeights weights = load_stage_weights(model_, part, *ops_, {});
    inputs_.clear();  // of the last layer, whose matrices are gone
    head_ = weights.own_head.get();
    StageModel plain_head = make_stage(part, std::move(weights), *observed_);
    const HeadOutcome plain = run_head(plain_head, text_, plain_);

    StageWeights others = load_stage_weights(model_, part, *ops_, as_wanted);
    if (!head_may_be_int8(*others.own_head)) {
      types_[std::string(head_name())] = Quantization::kNone;
      others = load_stage_weights(model_, part, *ops_, {});
    }
    StageModel quantized_head = make_stage(part, std::move(others), *ops_);
    tell_(report_.end(compare(plain, run_head(quantized_head, text_, quantized_))));
  }

  bool head_may_be_int8(const Matrix& quantized) {
    const std::int64_t k = head_->k();
    const ConstTensorView inputs(reinterpret_cast<const std::byte*>(head_inputs_.data()),
                                 std::ssize(head_inputs_) / k, k, DType::kBFloat16);
    const ProductError error = product_error(*ops_, *head_, quantized, inputs);
    const bool small = !max_error_ || error.relative <= *max_error_;
    const std::size_t bytes =
        static_cast<std::size_t>(quantized.n()) * static_cast<std::size_t>(k + 4);  // a scale a row
    tell_(report_.add({.layer = model_.config().num_layers,
                       .matrix = "head",
                       .type = small ? Quantization::kInt8 : Quantization::kNone,
                       .error = small ? error : ProductError{},
                       .rounded_error = error.relative,
                       .bytes = small ? bytes : plain_bytes(quantized.n() * k),
                       .wanted_bytes = bytes}));
    return small;
  }

  QuantizationReport::Whole compare(const HeadOutcome& plain, const HeadOutcome& quantized) const {
    QuantizationReport::Whole whole{.positions = plain.likeliest.size()};
    for (std::size_t i = 0; i < plain.likeliest.size(); ++i) {
      whole.agreeing += plain.likeliest[i] == quantized.likeliest[i] ? 1 : 0;
    }
    const auto positions = static_cast<double>(whole.positions);
    whole.plain_perplexity = std::exp(-plain.log_probability / positions);
    whole.perplexity = std::exp(-quantized.log_probability / positions);
    return whole;
  }

  Checkpoint& model_;
  ThreadPool& pool_;
  Quantization wanted_;
  std::optional<double> max_error_;
  Tell tell_;
  CalibrationText text_;
  std::unique_ptr<Ops> ops_;      // bfloat16: the model's
  std::unique_ptr<Ops> float32_;  // for statistics
  std::unique_ptr<Ops> observed_;
  std::unique_ptr<MatrixQuantizer> rounding_;  // of tables
  IntegerStore store_;
  QuantizationReport report_;
  HiddenStates plain_;
  HiddenStates quantized_;
  std::map<const Matrix*, InputStatistics> inputs_;  // of the layer at hand
  const Matrix* head_ = nullptr;
  std::vector<std::uint16_t> head_inputs_;  // [rows, hidden], a row of each turn
  std::map<std::string, Quantization> types_;
};

}  // namespace

std::unique_ptr<MatrixQuantizer> make_calibrated_quantizer(Checkpoint& model, ThreadPool& pool,
                                                           CalibrationOptions options,
                                                           const Tell& tell) {
  if (options.tokens.size() < 2) {
    throw std::invalid_argument(
        fmt::format("the calibration text has {} tokens; at least 2 are needed, some thousands are "
                    "better",
                    options.tokens.size()));
  }
  auto quantizer = std::make_unique<CalibratedQuantizer>(model, pool, std::move(options), tell);
  quantizer->calibrate();
  return quantizer;
}

}  // namespace headrace
