// The cost of an op on the card, by the formulas of costs.py, and how it is reported to the phantom's clock.
#pragma once

#include <c10/core/impl/VirtualGuardImpl.h>

#include <cmath>
#include <map>
#include <unordered_map>

#include "operands.h"

namespace coopsim {

// Set by Python. flops_per_ns: for float32, bfloat16, float16, and any other type. least_ns: the least cost of a
// kernel. stream: returns the handle of the current stream. The rest: functions of the phantom's runtime.
struct Device {
  double flops_per_ns[4];
  double bytes_per_ns;
  int64_t least_ns;
  int64_t (*stream)();
  void (*op_begins)();
  void (*op_ends)(void* stream, uint64_t ns);
  void (*clear)(void* address, size_t nbytes);
};

class Costs {
 public:
  Device device{};

  int64_t moving(int64_t nbytes) const {
    return std::max(static_cast<int64_t>(std::nearbyint(static_cast<double>(nbytes) / device.bytes_per_ns)), device.least_ns);
  }

  int64_t nanoseconds(const Schema& schema, int64_t flops, int64_t nbytes, c10::ScalarType dtype) const {
    if (schema.is(NO_KERNEL)) return 0;
    const int rate = dtype == at::kFloat ? 0 : dtype == at::kBFloat16 ? 1 : dtype == at::kHalf ? 2 : 3;
    const double computing = static_cast<double>(flops) / device.flops_per_ns[rate];
    return std::max(static_cast<int64_t>(std::nearbyint(computing)), moving(nbytes));
  }

  // Looks up FLOPs by Signature; false if Python has not counted them yet.
  bool flops(uint64_t signature, int64_t* found) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = flops_.find(signature);
    if (known == flops_.end()) return false;
    *found = known->second;
    return true;
  }
  void learn(uint64_t signature, int64_t flops) {
    const std::lock_guard<std::mutex> lock(mutex_);
    flops_[signature] = flops;
  }

  void* stream() {
    const c10::impl::VirtualGuardImpl cuda(c10::DeviceType::CUDA);
    const c10::Stream now = cuda.getStream(cuda.getDevice());
    if (!now.id()) return nullptr;
    const auto key = std::make_pair(static_cast<int>(now.device_index()), now.id());
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto known = streams_.find(key);
      if (known != streams_.end()) return known->second;
    }
    void* handle = reinterpret_cast<void*>(device.stream());
    const std::lock_guard<std::mutex> lock(mutex_);
    return streams_[key] = handle;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<uint64_t, int64_t> flops_;
  std::map<std::pair<int, c10::StreamId>, void*> streams_;
};

}  // namespace coopsim
