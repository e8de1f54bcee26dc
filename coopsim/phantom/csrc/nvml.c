/* NVML, which c10 opens for expandable segments and for the text of an out-of-memory error. */
#include "answers.h"

#define DEVICE ((void *)0x40)
enum { NVML_NOT_SUPPORTED = 3 };

int nvmlInit(void) { return SUCCESS; }
int nvmlInit_v2(void) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *n) {
  size_t devices = setting("COOPSIM_PHANTOM_DEVICES");
  *n = devices ? (unsigned)devices : 1;
  return SUCCESS;
}
int nvmlDeviceGetHandleByIndex_v2(UNUSED unsigned i, void **device) { *device = DEVICE; return SUCCESS; }
int nvmlDeviceGetHandleByPciBusId_v2(UNUSED const char *bus, void **device) { *device = DEVICE; return SUCCESS; }
int nvmlDeviceGetComputeRunningProcesses(UNUSED void *device, unsigned *n, UNUSED void *out) { *n = 0; return SUCCESS; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *n, void *out) {
  return nvmlDeviceGetComputeRunningProcesses(device, n, out);
}
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13000; return SUCCESS; }
int nvmlDeviceGetPciInfo_v3(UNUSED void *device, void *out) {
  enum { LEGACY = 16, NUMBERS = 20, BUS = 32 };
  memset(out, 0, LEGACY + NUMBERS + BUS);
  memcpy(out, "0000:00:00.0", sizeof "0000:00:00.0");
  memcpy((char *)out + LEGACY + NUMBERS, "00000000:00:00.0", sizeof "00000000:00:00.0");
  return SUCCESS;
}
int nvmlDeviceGetNvLinkState(void) { return NVML_NOT_SUPPORTED; }
int nvmlDeviceGetNvLinkRemoteDeviceType(void) { return NVML_NOT_SUPPORTED; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void) { return NVML_NOT_SUPPORTED; }
int nvmlDeviceGetGpuFabricInfoV(UNUSED void *device, UNUSED void *info) { return SUCCESS; }
