// The module that an op belongs to, by number (where.py).
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

namespace coopsim {

class Modules {
 public:
  std::atomic<int64_t> backward_done{0};  // whether an op has run in a backward pass; Python resets it

  // Sets the module of this thread; -1: none. sequence: the sequence number of the next autograd node; -1: not to be
  // kept, as numbers are those of one thread only.
  void enter(int64_t module, int64_t sequence) {
    inside() = module;
    if (sequence < 0) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    starts_.push_back(sequence);
    modules_.push_back(module);
  }
  void forget() {
    const std::lock_guard<std::mutex> lock(mutex_);
    starts_.clear();
    modules_.clear();
  }

  int64_t here() {
    const bool backward = torch::autograd::get_current_graph_task_id() != -1;
    if (backward) backward_done = 1;
    if (inside() >= 0 || !backward) return inside();
    const auto node = torch::autograd::get_current_node();
    if (!node) return -1;
    const auto sequence = static_cast<int64_t>(node->sequence_nr());
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), sequence);
    const auto at = after - starts_.begin() - 1;
    return at >= 0 && at < static_cast<int64_t>(starts_.size()) - 1 ? modules_[static_cast<size_t>(at)] : -1;
  }

 private:
  static int64_t& inside() {
    thread_local int64_t module = -1;
    return module;
  }
  std::mutex mutex_;
  std::vector<int64_t> starts_, modules_;
};

}  // namespace coopsim
