"""`AttentionService`: its methods, each a plain function of a message and a call."""

import grpc

from limelight.v1 import service_pb2
from service.rpc.answering import Answering
from service.rpc.call import Calls
from service.rpc.listing import Listing


def attention_service(answering: Answering, listing: Listing, calls: Calls) -> dict[str, grpc.RpcMethodHandler]:
    """Make the handler of each of the service's methods.

    Requests come as bytes, and what lanes framed goes as bytes: nothing large is serialised on the event loop.
    """
    pb = service_pb2
    return {
        "Predict": calls.unary("Predict", pb.PredictRequest, answering.predict),
        "Attend": calls.unary("Attend", pb.AttendRequest, answering.attend),
        "AttendStream": calls.stream("AttendStream", pb.AttendStreamRequest, answering.attend_stream),
        "Generate": calls.stream("Generate", pb.GenerateRequest, answering.generate),
        "ListModels": calls.unary("ListModels", pb.ListModelsRequest, listing.list_models),
        "GetModel": calls.unary("GetModel", pb.GetModelRequest, listing.get_model),
    }
