#include "cuda/plans/plan.hpp"

#include <algorithm>
#include <utility>

#include "base/integer.hpp"

namespace starling::compute::cuda {

Layout aligned_layout(const std::vector<Tensor>& tensors) {
  Layout layout;
  for (const Tensor& tensor : tensors) {
    layout.segments.push_back({tensor.offset, layout.count, tensor.size});
    layout.count += base::round_up(tensor.size, kAlignment / sizeof(float));
  }
  return layout;
}

Value Plan::add(std::size_t count) {
  lifetimes_.push_back(
      {base::round_up(std::max<std::size_t>(count, 1) * sizeof(float), kAlignment), kNever, 0});
  lasting_.push_back(false);
  return {lifetimes_.size() - 1, 0, count};
}

Value Plan::add_lasting(std::size_t count) {
  const Value value = add(count);
  lasting_.back() = true;
  return value;
}

Value Plan::add_constant(std::vector<float> content) {
  const Value value = add_lasting(content.size());
  constants.push_back({value, std::move(content)});
  return value;
}

void Plan::touch(const Value& value) {
  Lifetime& life = lifetimes_[value.buffer];
  if (life.first == kNever) life.first = now_;
  life.last = now_;
}

void Plan::call(std::vector<Call>& calls, std::size_t op, std::initializer_list<Value> touched,
                MakeWork make) {
  for (const Value& value : touched) touch(value);
  calls.push_back({op, std::move(make)});
  ++now_;
}

ArenaPlan Plan::arena() const {
  std::vector<Lifetime> lives = lifetimes_;
  for (std::size_t i = 0; i < lives.size(); ++i) {
    if (lasting_[i]) {
      lives[i].first = 0;
      lives[i].last = now_;
    } else if (lives[i].first == kNever) {
      lives[i] = {0, 0, 0};  // reserved but never needed
    }
  }
  return plan_arena(lives);
}

}  // namespace starling::compute::cuda
