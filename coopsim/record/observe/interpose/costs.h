// The time of an op on the card, and how it is reported to the phantom's clock. Of ops whose time depends on more than
// their bytes and the type of their operands, Python computes it (costs.py) at the first call with a Signature.
#pragma once

#include <c10/core/impl/VirtualGuardImpl.h>

#include <cmath>
#include <map>
#include <unordered_map>

#include "operands.h"
#include "precision.h"

namespace coopsim {

// Set by Python. stream: returns the handle of the current stream. The rest: functions of the phantom's runtime.
struct Device {
  int64_t (*stream)();
  void (*op_begins)();
  void (*op_ends)(void* stream, uint64_t ns);
  void (*clear)(void* address, size_t nbytes);
};

class Costs {
 public:
  Device device{};

  // Returns the time of a call that moves so many bytes. half: its first floating-point operand has 16 bits.
  static int64_t moving(const Description& said, int64_t nbytes, bool half) {
    return static_cast<int64_t>(std::nearbyint(said.ns[half] + static_cast<double>(nbytes) * said.per_byte[half]));
  }

  // Looks up the time of a call by its Signature; false if Python has not computed it yet.
  bool known(uint64_t signature, int64_t* ns) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = known_.find(signature);
    if (found == known_.end()) return false;
    *ns = found->second;
    return true;
  }
  void learn(uint64_t signature, int64_t ns) {
    const std::lock_guard<std::mutex> lock(mutex_);
    known_[signature] = ns;
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
  std::unordered_map<uint64_t, int64_t> known_;
  std::map<std::pair<int, c10::StreamId>, void*> streams_;
};

}  // namespace coopsim
