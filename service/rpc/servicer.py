"""`AttentionService`: its methods, each a plain function of a message and a call."""

from collections.abc import Sequence

import grpc

from limelight.v1 import service_pb2
from service.rpc.answering import Answering
from service.rpc.call import Calls, Method, StreamMethod, UnaryMethod
from service.rpc.listing import Listing


def methods_of(answering: Answering, listing: Listing) -> tuple[Method, ...]:
    """List the service's methods."""
    pb = service_pb2
    return (
        UnaryMethod("Predict", pb.PredictRequest, answering.predict),
        UnaryMethod("Attend", pb.AttendRequest, answering.attend),
        StreamMethod("AttendStream", pb.AttendStreamRequest, answering.attend_stream),
        StreamMethod("Generate", pb.GenerateRequest, answering.generate),
        UnaryMethod("ListModels", pb.ListModelsRequest, listing.list_models),
        UnaryMethod("GetModel", pb.GetModelRequest, listing.get_model),
    )


def attention_service(methods: Sequence[Method], calls: Calls) -> dict[str, grpc.RpcMethodHandler]:
    """Make the handler of each of the service's methods.

    Requests come as bytes, and what lanes framed goes as bytes: nothing large is serialised on the event loop.
    """
    return {
        each.name: calls.unary(each.name, each.request, each.handle)
        if isinstance(each, UnaryMethod)
        else calls.stream(each.name, each.request, each.handle)
        for each in methods
    }
