"""Lanes: one number of each of the trajectories that run in lockstep, as a type of the compiled code.

A ``Lanes`` value is a short vector (16 float32 numbers unless said otherwise), lane l belonging to the l-th trajectory
of the block. Compiled code writes it like a NumPy array: ``+ - * /``, comparisons, ``np.where``, ``np.minimum`` and
``np.maximum``, ``np.sqrt``, ``np.abs``, ``np.floor``, ``np.take`` with Lanes as indices, ``astype(np.int32)``, and what
``approximations`` adds. So the functions of a task are plain NumPy and can be run as such. A plain number next to Lanes
stands for all lanes.

Every operation is one IEEE operation a lane, none is fused or reordered: the compiler is told nothing that would let
it (no fast-math flag), and no operation mixes lanes. Hence the same bits on every machine.

Arrays of Lanes, ``width`` lanes each: ``records(array, offset, stride, width)[h, i]``, slots in memory, ``stride`` of
them a row (or just ``[i]``); ``parameters(array, offset, stride, width)[i, j]``, one number of ``array`` for all lanes;
``registers(count, width)[i]``, local variables with an index.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.typeconv import Conversion
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, lower_cast, models, overload, overload_method, register_model

Lanes = Any  # in annotations of compiled functions; NumPy arrays do where a function runs uncompiled
Function = TypeVar("Function", bound=Callable[..., Any])
_i32, _i64 = ir.IntType(32), ir.IntType(64)


def jit(function: Function) -> Function:
    """Compiled, and inlined into what calls it."""
    compiled: Function = numba.njit(forceinline=True)(function)
    return compiled


class LanesType(types.Type):
    """``width`` numbers of ``dtype`` (float32, int32, uint32 or boolean)."""

    def __init__(self, dtype: types.Type, width: int) -> None:
        self.dtype, self.width = dtype, width
        super().__init__(name=f"Lanes({dtype} x {width})")

    def of(self, dtype: types.Type) -> LanesType:
        """As many lanes of another dtype."""
        return LanesType(dtype, self.width)

    def can_convert_from(self, typingctx: Any, other: types.Type) -> Conversion | None:
        """A plain number stands for all lanes."""
        return Conversion.safe if isinstance(other, types.Number | types.Boolean) else None


class LanesArray(types.Type):
    """Where Lanes of float32 are kept. ``spread``: one float32 in memory for all lanes."""

    def __init__(self, width: int, spread: bool) -> None:
        self.lanes, self.spread = LanesType(types.float32, width), spread
        super().__init__(name=f"LanesArray({width}, spread={spread})")


def _llvm(lanes: LanesType) -> ir.VectorType:
    element = {types.float32: ir.FloatType(), types.boolean: ir.IntType(1)}.get(lanes.dtype, _i32)
    return ir.VectorType(element, lanes.width)


def _splat(builder: ir.IRBuilder, number: ir.Value, width: int) -> ir.Value:
    one = builder.insert_element(ir.Constant(ir.VectorType(number.type, width), ir.Undefined), number, _i32(0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(_i32, width), [0] * width))


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: LanesType) -> None:
        super().__init__(dmm, fe_type, _llvm(fe_type))


@register_model(LanesArray)
class _LanesArrayModel(models.StructModel):
    def __init__(self, dmm: Any, fe_type: LanesArray) -> None:
        super().__init__(dmm, fe_type, [("data", types.CPointer(types.float32)), ("stride", types.int64)])


@lower_cast(types.Number, LanesType)
@lower_cast(types.Boolean, LanesType)
def _number_to_lanes(context: Any, builder: ir.IRBuilder, fromty: types.Type, toty: LanesType, value: ir.Value) -> Any:
    return _splat(builder, context.cast(builder, value, fromty, toty.dtype), toty.width)


# ---- operators and NumPy functions of Lanes -----------------------------------------------------------------------


def _provide(function: Any, arity: int, result: types.Type | None, emit: Callable[..., ir.Value]) -> None:
    """``function`` of ``arity`` Lanes and numbers; ``result`` is the answer's dtype where it differs."""

    class Template(AbstractTemplate):
        key = function

        def generic(self, args: tuple[types.Type, ...], kws: Any) -> Any:
            lanes = [arg for arg in args if isinstance(arg, LanesType)]
            numbers = all(isinstance(arg, LanesType | types.Number | types.Boolean) for arg in args)
            if kws or len(args) != arity or not lanes or not numbers or any(arg != lanes[0] for arg in lanes):
                return None
            return signature(lanes[0].of(result) if result else lanes[0], *[lanes[0]] * arity)

    def lower(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return emit(builder, sig.args[0].dtype, *args)

    infer_global(function, types.Function(Template))
    lower_builtin(function, *[LanesType] * arity)(lower)


def _arithmetic(floats: str, integers: str | None = None) -> Callable[..., ir.Value]:
    def emit(builder: ir.IRBuilder, dtype: types.Type, *args: ir.Value) -> ir.Value:
        name = floats if dtype == types.float32 else integers
        if not name:
            raise TypingError(f"no such operation on lanes of {dtype}")
        return getattr(builder, name)(*args)

    return emit


def _compare(builder: ir.IRBuilder, symbol: str, dtype: types.Type, x: ir.Value, y: ir.Value) -> ir.Value:
    if dtype == types.float32:
        return builder.fcmp_ordered(symbol, x, y)
    return builder.icmp_unsigned(symbol, x, y) if dtype == types.uint32 else builder.icmp_signed(symbol, x, y)


def _comparison(symbol: str) -> Callable[..., ir.Value]:
    return lambda builder, dtype, x, y: _compare(builder, symbol, dtype, x, y)


def _smaller(builder: ir.IRBuilder, dtype: types.Type, x: ir.Value, y: ir.Value) -> ir.Value:
    return builder.select(_compare(builder, "<", dtype, y, x), y, x)  # in this order x = nan stays nan


def _larger(builder: ir.IRBuilder, dtype: types.Type, x: ir.Value, y: ir.Value) -> ir.Value:
    return builder.select(_compare(builder, ">", dtype, y, x), y, x)


def _llvm_intrinsic(name: str) -> Callable[..., ir.Value]:
    def emit(builder: ir.IRBuilder, dtype: types.Type, x: ir.Value) -> ir.Value:
        kind = ir.FunctionType(x.type, [x.type])
        function = cgutils.get_or_insert_function(builder.module, kind, f"{name}.v{x.type.count}f32")
        return builder.call(function, [x])

    return emit


_provide(operator.add, 2, None, _arithmetic("fadd", "add"))
_provide(operator.sub, 2, None, _arithmetic("fsub", "sub"))
_provide(operator.mul, 2, None, _arithmetic("fmul", "mul"))
_provide(operator.truediv, 2, None, _arithmetic("fdiv"))
_provide(operator.neg, 1, None, _arithmetic("fneg", "neg"))
_provide(operator.xor, 2, None, _arithmetic("", "xor"))
_provide(operator.and_, 2, None, _arithmetic("", "and_"))
_provide(operator.or_, 2, None, _arithmetic("", "or_"))
_provide(operator.rshift, 2, None, _arithmetic("", "lshr"))
_provide(np.minimum, 2, None, _smaller)
_provide(np.maximum, 2, None, _larger)
_provide(np.sqrt, 1, None, _llvm_intrinsic("llvm.sqrt"))
_provide(np.abs, 1, None, _llvm_intrinsic("llvm.fabs"))
_provide(np.floor, 1, None, _llvm_intrinsic("llvm.floor"))
_provide(np.full_like, 2, None, lambda builder, dtype, like, number: number)
_provide(np.zeros_like, 1, None, lambda builder, dtype, like: ir.Constant(like.type, None))
for _function, _symbol in {
    operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=", operator.eq: "==", operator.ne: "!=",
}.items():  # fmt: skip
    _provide(_function, 2, types.boolean, _comparison(_symbol))


@infer_global(np.where)
class _Where(AbstractTemplate):
    """np.where(condition, x, y); float32 unless x or y are Lanes of something else."""

    key = np.where

    def generic(self, args: tuple[types.Type, ...], kws: Any) -> Any:
        if kws or len(args) != 3 or not isinstance(args[0], LanesType) or args[0].dtype != types.boolean:
            return None
        lanes = next((arg for arg in args[1:] if isinstance(arg, LanesType)), None)
        if lanes is None:
            integers = all(isinstance(arg, types.Integer) for arg in args[1:])
            lanes = args[0].of(types.int32 if integers else types.float32)
        return signature(lanes, args[0], lanes, lanes)


@lower_builtin(np.where, LanesType, LanesType, LanesType)
def _where(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
    return builder.select(*args)


@infer_global(np.take)
class _Take(AbstractTemplate):
    """np.take(table, index): a small table, one index a lane."""

    key = np.take

    def generic(self, args: tuple[types.Type, ...], kws: Any) -> Any:
        if kws or len(args) != 2 or not isinstance(args[1], LanesType) or args[0].dtype != types.float32:
            return None
        return signature(args[1].of(types.float32), *args)


@lower_builtin(np.take, types.Array, LanesType)
def _take(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
    data = context.make_array(sig.args[0])(context, builder, args[0]).data
    answer = ir.Constant(_llvm(sig.return_type), ir.Undefined)
    for lane in range(sig.return_type.width):
        number = builder.load(builder.gep(data, [builder.extract_element(args[1], _i32(lane))]))
        answer = builder.insert_element(answer, number, _i32(lane))
    return answer


@intrinsic
def _cast(typingctx: Any, lanes: Any, dtype: Any) -> Any:
    to = lanes.of(dtype.instance_type if isinstance(dtype, types.NumberClass) else dtype.dtype)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        if (lanes.dtype, to.dtype) == (types.float32, types.int32):
            return builder.fptosi(args[0], _llvm(to))
        if (lanes.dtype, to.dtype) == (types.int32, types.float32):
            return builder.sitofp(args[0], _llvm(to))
        if (lanes.dtype, to.dtype) == (types.uint32, types.float32):
            return builder.uitofp(args[0], _llvm(to))
        raise TypingError(f"no conversion of {lanes} to {to}")

    return signature(to, lanes, dtype), codegen


@overload_method(LanesType, "astype", strict=False)
def _astype(lanes: Any, dtype: Any) -> Any:
    return lambda lanes, dtype: _cast(lanes, dtype)


@intrinsic
def power_of_two(typingctx: Any, exponent: Any) -> Any:
    """2 ** exponent for int32 lanes in -126..127, exactly, by writing the exponent's bits."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        kind = args[0].type
        biased = builder.add(args[0], ir.Constant(kind, [127] * kind.count))
        return builder.bitcast(builder.shl(biased, ir.Constant(kind, [23] * kind.count)), _llvm(sig.return_type))

    return signature(exponent.of(types.float32), exponent), codegen


@intrinsic
def mantissa_and_exponent(typingctx: Any, x: Any) -> Any:
    """(a in [1, 2), n) with x = a 2^n, both float32, for x > 0 that is not denormal."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        def each(number: int) -> ir.Value:
            return ir.Constant(kind, [number] * x.width)

        kind = ir.VectorType(_i32, x.width)
        bits = builder.bitcast(args[0], kind)
        exponent = builder.sub(builder.lshr(bits, each(23)), each(127))
        mantissa = builder.or_(builder.and_(bits, each(0x7FFFFF)), each(127 << 23))
        pair = builder.bitcast(mantissa, _llvm(x)), builder.sitofp(exponent, _llvm(x))
        return context.make_tuple(builder, sig.return_type, pair)

    return signature(types.UniTuple(x, 2), x), codegen


@intrinsic
def multiply_high(typingctx: Any, factor: Any, lanes: Any) -> Any:
    """The upper 32 bits of factor x lanes, for a 32-bit ``factor`` and uint32 lanes."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        wide = ir.VectorType(_i64, lanes.width)
        product = builder.mul(*(builder.zext(arg, wide) for arg in args))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, [32] * lanes.width)), args[1].type)

    return signature(lanes, lanes, lanes), codegen


@intrinsic(prefer_literal=True)
def counting(typingctx: Any, first: Any, width: Any) -> Any:
    """The lanes first, first + 1, ..., as uint32."""
    to = LanesType(types.uint32, width.literal_value)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        start = context.cast(builder, args[0], sig.args[0], types.uint32)
        return builder.add(_splat(builder, start, to.width), ir.Constant(_llvm(to), list(range(to.width))))

    return signature(to, first, width), codegen


# ---- what a block of trajectories needs ---------------------------------------------------------------------------


@intrinsic
def some(typingctx: Any, condition: Any) -> Any:
    """Whether it holds in any lane."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        bits = ir.IntType(condition.width)
        return builder.icmp_unsigned("!=", builder.bitcast(args[0], bits), ir.Constant(bits, 0))

    return signature(types.boolean, condition), codegen


@intrinsic
def total(typingctx: Any, lanes: Any) -> Any:
    """The sum over float32 lanes that hold whole numbers, as int64."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        answer = _i64(0)
        for lane in range(lanes.width):
            answer = builder.add(answer, builder.fptosi(builder.extract_element(args[0], _i32(lane)), _i64))
        return answer

    return signature(types.int64, lanes), codegen


@intrinsic
def chosen(typingctx: Any, condition: Any, new: Any, old: Any) -> Any:
    """A state, that is a tuple of Lanes: the new one in the lanes where the condition holds, in the others the old."""
    if new != old:
        raise TypingError(f"a kernel's state is {old} before a transition and {new} after it")

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        pairs = zip(*(cgutils.unpack_tuple(builder, state) for state in args[1:]), strict=True)
        return context.make_tuple(builder, new, [builder.select(args[0], *pair) for pair in pairs])

    return signature(new, condition, new, old), codegen


def as_number(like: Lanes, value: Lanes) -> Lanes:
    """What a task says of a state as float32 Lanes: 1 where it is true, nan everywhere where it says None."""
    raise NotImplementedError("compiled code alone calls it")


@overload(as_number, jit_options={"forceinline": True}, strict=False)
def _as_number(like: Any, value: Any) -> Any:
    if isinstance(value, types.NoneType):
        return lambda like, value: np.full_like(like, np.nan)
    if isinstance(value, LanesType) and value.dtype == types.boolean:
        return lambda like, value: np.where(value, 1.0, 0.0)
    return lambda like, value: np.zeros_like(like) + value


# ---- arrays of Lanes ----------------------------------------------------------------------------------------------


def _array(context: Any, builder: ir.IRBuilder, kind: LanesArray, data: ir.Value, stride: ir.Value) -> Any:
    answer = cgutils.create_struct_proxy(kind)(context, builder)
    answer.data, answer.stride = builder.bitcast(data, ir.FloatType().as_pointer()), stride
    return answer._getvalue()


def _view(kind: LanesArray, *args: types.Type) -> Any:
    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        offset, stride = (context.cast(builder, args[i], sig.args[i], types.int64) for i in (1, 2))
        return _array(context, builder, kind, builder.gep(data, [offset]), stride)

    return signature(kind, *args), codegen


@intrinsic(prefer_literal=True)
def records(typingctx: Any, array: Any, offset: Any, stride: Any, width: Any) -> Any:
    """The memory of a float32 ``array`` from number ``offset`` on as slots of Lanes, ``stride`` slots a row."""
    return _view(LanesArray(width.literal_value, spread=False), array, offset, stride, width)


@intrinsic(prefer_literal=True)
def parameters(typingctx: Any, array: Any, offset: Any, stride: Any, width: Any) -> Any:
    """The float32 numbers of ``array`` from ``offset`` on, ``stride`` a row, each the same for all lanes."""
    return _view(LanesArray(width.literal_value, spread=True), array, offset, stride, width)


@intrinsic(prefer_literal=True)
def registers(typingctx: Any, count: Any, width: Any) -> Any:
    """``count`` Lanes of zeros, local to the calling function; CPU registers where loops over them have a constant
    length."""
    kind = LanesArray(width.literal_value, spread=False)
    block = ir.ArrayType(_llvm(kind.lanes), count.literal_value)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        data = cgutils.alloca_once(builder, block)
        builder.store(ir.Constant(block, None), data)
        return _array(context, builder, kind, data, _i64(0))

    return signature(kind, count, width), codegen


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    key = operator.getitem

    def generic(self, args: tuple[types.Type, ...], kws: Any) -> Any:
        return signature(args[0].lanes, *args) if isinstance(args[0], LanesArray) else None


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    key = operator.setitem

    def generic(self, args: tuple[types.Type, ...], kws: Any) -> Any:
        return signature(types.none, *args[:2], args[0].lanes) if isinstance(args[0], LanesArray) else None


def _place(context: Any, builder: ir.IRBuilder, kind: LanesArray, array: Any, itype: Any, index: Any) -> ir.Value:
    """The address of [i] or [row, i]."""
    array = cgutils.create_struct_proxy(kind)(context, builder, value=array)
    if isinstance(itype, types.BaseTuple):
        row, i = (
            context.cast(builder, x, t, types.int64)
            for x, t in zip(cgutils.unpack_tuple(builder, index), itype, strict=True)
        )
        at = builder.add(builder.mul(row, array.stride), i)
    else:
        at = context.cast(builder, index, itype, types.int64)
    return builder.gep(array.data, [at if kind.spread else builder.mul(at, _i64(kind.lanes.width))])


@lower_builtin(operator.getitem, LanesArray, types.Any)
def _getitem(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
    kind = sig.args[0]
    place = _place(context, builder, kind, args[0], sig.args[1], args[1])
    if kind.spread:
        return _splat(builder, builder.load(place), kind.lanes.width)
    return builder.load(builder.bitcast(place, _llvm(kind.lanes).as_pointer()), align=4)


@lower_builtin(operator.setitem, LanesArray, types.Any, LanesType)
def _setitem(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> None:
    kind = sig.args[0]
    place = _place(context, builder, kind, args[0], sig.args[1], args[1])
    builder.store(args[2], builder.bitcast(place, args[2].type.as_pointer()), align=4)


@intrinsic
def add_at(typingctx: Any, array: Any, index: Any, lanes: Any) -> Any:
    """array[index] += lanes, with an index of its own for every lane (int32 lanes)."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        data = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0]).data
        for lane in range(lanes.width):
            row = builder.zext(builder.extract_element(args[1], _i32(lane)), _i64)
            place = builder.gep(data, [builder.add(builder.mul(row, _i64(lanes.width)), _i64(lane))])
            builder.store(builder.fadd(builder.load(place), builder.extract_element(args[2], _i32(lane))), place)
        return context.get_dummy_value()

    return signature(types.none, array, index, lanes), codegen
