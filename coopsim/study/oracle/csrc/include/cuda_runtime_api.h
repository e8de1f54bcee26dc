/* As much of CUDA's headers as PyTorch's headers of its caching allocator need to be read: names, no more. */
#pragma once
#include <stddef.h>
#define CUDART_CB
#define CUDART_VERSION CUDA_VERSION
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
typedef struct CUgraph_st* cudaGraph_t;
typedef struct CUgraphNode_st* cudaGraphNode_t;
typedef struct CUuserObject_st* cudaUserObject_t;
typedef struct CUmemPoolHandle_st* cudaMemPool_t;
typedef void (*cudaHostFn_t)(void*);
typedef enum { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorNotReady = 600 } cudaError_t;
typedef cudaError_t cudaError;
typedef enum { cudaMemcpyDefault = 4 } cudaMemcpyKind;
typedef enum {
  cudaStreamCaptureStatusNone = 0,
  cudaStreamCaptureStatusActive = 1,
  cudaStreamCaptureStatusInvalidated = 2
} cudaStreamCaptureStatus;
typedef enum { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed }
    cudaStreamCaptureMode;
enum { cudaUserObjectNoDestructorSync = 1, cudaGraphUserObjectMove = 1, cudaStreamNonBlocking = 1 };
#define DECLARE(f) cudaError_t f(...);
extern "C" {
DECLARE(cudaMemcpyAsync)
DECLARE(cudaMemGetInfo)
DECLARE(cudaMalloc)
DECLARE(cudaStreamSynchronize)
DECLARE(cudaStreamQuery)
DECLARE(cudaStreamGetPriority)
DECLARE(cudaStreamIsCapturing)
DECLARE(cudaStreamGetCaptureInfo)
DECLARE(cudaStreamGetCaptureInfo_v2)
DECLARE(cudaDeviceGetStreamPriorityRange)
DECLARE(cudaThreadExchangeStreamCaptureMode)
DECLARE(cudaUserObjectCreate)
DECLARE(cudaUserObjectRelease)
DECLARE(cudaGraphRetainUserObject)
cudaError_t cudaGetLastError(void);
const char* cudaGetErrorString(cudaError_t);
}
#undef DECLARE
