// Runs in the guest: takes programs from the worker, and gives them a console and timers.
const out = std.out, err = std.err
const O = { std, os }
for (const name of ["std", "os", "bjson", "scriptArgs", "print", "navigator", "performance"]) delete globalThis[name]
const channel = 1 << 20
let rest = "", calls = new Map(), last = 0, ended = null, script
const buffer = new ArrayBuffer(65536)

const bytes = text => {
  const found = []
  for (const each of text) {
    const c = each.codePointAt(0)
    if (c < 0x80) found.push(c)
    else if (c < 0x800) found.push(0xc0 | c >> 6, 0x80 | c & 63)
    else if (c < 0x10000) found.push(0xe0 | c >> 12, 0x80 | c >> 6 & 63, 0x80 | c & 63)
    else found.push(0xf0 | c >> 18, 0x80 | c >> 12 & 63, 0x80 | c >> 6 & 63, 0x80 | c & 63)
  }
  return new Uint8Array(found)
}
const ascii = text => text.replace(/[\u007f-\uffff]/g, c => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"))
const say = message => {
  const data = bytes(ascii(JSON.stringify(message)) + "\n")
  for (let at = 0; at < data.length;) at += O.os.write(channel, data.buffer, at, data.length - at)
}
const readLine = () => {
  for (;;) {
    const end = rest.indexOf("\n")
    if (end >= 0) {
      const line = rest.slice(0, end)
      rest = rest.slice(end + 1)
      return JSON.parse(line)
    }
    const count = O.os.read(channel, buffer, 0, buffer.byteLength)
    const data = new Uint8Array(buffer, 0, count)
    for (let at = 0; at < count; at += 8192) rest += String.fromCharCode(...data.subarray(at, Math.min(count, at + 8192)))
  }
}
const settle = message => {
  const [yes, no] = calls.get(message.answer)
  calls.delete(message.answer)
  if (calls.size === 0) O.os.setReadHandler(channel, null)
  if ("error" in message) no(new Error(message.error))
  else yes(message.value)
}
const call_tool = (name, input = {}) => new Promise((yes, no) => {
  const number = ++last
  if (calls.size === 0) O.os.setReadHandler(channel, () => settle(readLine()))
  calls.set(number, [yes, no])
  say({ call: number, name, input })
})
const tool = name => new Proxy(() => {}, {
  get: (_, part) => typeof part === "string" && part !== "then" ? tool(name ? name + "." + part : part) : undefined,
  apply: (_, self, [input]) => call_tool(name, input),
})

const hide = (target, name, value) =>
  Object.defineProperty(target, name, { value, writable: true, configurable: true, enumerable: false })
class Timeout { constructor(timer, ms, repeat) { hide(this, "timer", timer); this._idleTimeout = ms; hide(this, "repeat", repeat) } ref() { return this } unref() { return this } hasRef() { return true } [Symbol.toPrimitive]() { return this.id } }
let ids = 0
const timers = new Map()
const start = (repeat, callback, ms, args) => {
  if (typeof callback !== "function") {
    const error = new TypeError(`The "callback" argument must be of type function. Received ${inspect(callback)}`)
    error.code = "ERR_INVALID_ARG_TYPE"
    throw error
  }
  ms = Number(ms)
  if (!(ms >= 1 && ms <= 2147483647)) ms = 1
  const timeout = new Timeout(null, ms, repeat)
  hide(timeout, "id", ++ids)
  timers.set(timeout.id, timeout)
  const fire = () => {
    if (repeat) timeout.timer = O.os.setTimeout(fire, ms)
    due.push(() => {
      if (timers.get(timeout.id) !== timeout) return
      if (!repeat) timers.delete(timeout.id)
      callback(...args)
    })
    if (due.length === 1) runDue()
  }
  timeout.timer = O.os.setTimeout(fire, ms)
  return timeout
}
// The interpreter asks for timers between two jobs; a callback comes only when jobs are done.
const due = []
const settled = async () => { for (let hop = 0; hop < 100; hop++) await null }
const runDue = async () => {
  await settled()
  while (due.length) {
    try { due[0]() } catch (error) { fail(error) }
    await settled()
    due.shift()
  }
}
const stop = timeout => {
  const found = timers.get(Number(timeout?.id ?? timeout))
  if (found === undefined) return
  O.os.clearTimeout(found.timer)
  timers.delete(found.id)
}
globalThis.setTimeout = (callback, ms, ...args) => start(false, callback, ms, args)
globalThis.setInterval = (callback, ms, ...args) => start(true, callback, ms, args)
globalThis.setImmediate = (callback, ...args) => start(false, callback, 0, args)
globalThis.clearTimeout = globalThis.clearInterval = globalThis.clearImmediate = stop
globalThis.queueMicrotask ??= callback => { Promise.resolve().then(callback).catch(fail) }
globalThis.call_tool = call_tool
globalThis.clawhive_tools = tool("")

const leave = code => {
  out.flush(); err.flush()
  O.std.exit(code & 255)
}
const fail = error => {
  err.puts(`Uncaught ${error instanceof Error && typeof error.stack === "string" ? shownError(error) : inspect(error)}\n`)
  leave(1)
}
const shownError = error => {
  const lines = String(error.stack).split("\n").filter(line => line.trim() && !line.includes("<cmdline>") && !line.includes("(native)"))
  const text = `${error.name}: ${error.message}`
  return [text, ...lines.map(line => line.replace(/<evalScript>/g, script))].join("\n")
}
script = "main.js"
globalThis.process = {
  argv: ["node"], env: O.std.getenviron(), exitCode: undefined, platform: "wasi",
  exit: code => leave(code ?? globalThis.process.exitCode ?? 0),
  cwd: () => "/work",
  nextTick: (callback, ...args) => { Promise.resolve().then(() => callback(...args)).catch(fail) },
  stdout: { write: text => { out.puts(String(text)); out.flush(); return true }, isTTY: false },
  stderr: { write: text => { err.puts(String(text)); err.flush(); return true }, isTTY: false },
}

const KEY = /^[a-zA-Z_][a-zA-Z_0-9]*$/
const CONTROL = /[\x00-\x1f\x27\x5c\x7f-\x9f]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g
const SHORT = { "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", "\\": "\\\\" }
const quoted = text => {
  let mark = "'"
  if (text.includes("'")) {
    if (!text.includes('"')) mark = '"'
    else if (!text.includes("`") && !text.includes("${")) mark = "`"
  }
  const escaped = text.replace(CONTROL, c => {
    if (c === "'") return mark === "'" ? "\\'" : c
    const code = c.charCodeAt(0)
    return SHORT[c] ?? (code < 256 ? "\\x" + code.toString(16).toUpperCase().padStart(2, "0") : "\\u" + code.toString(16).toUpperCase())
  })
  return mark + escaped + mark
}
const WIDE = /[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{1f300}-\u{1f64f}\u{1f900}-\u{1f9ff}\u{20000}-\u{3fffd}]/u
const width = text => {
  let total = 0
  for (const c of text.normalize("NFC")) total += WIDE.test(c) ? 2 : /\p{Mn}|\p{Me}|\p{Cf}/u.test(c) ? 0 : 1
  return total
}
const nameOf = value => {
  for (let each = value; each !== null; each = Object.getPrototypeOf(each)) {
    const found = Object.getOwnPropertyDescriptor(each, "constructor")
    if (found !== undefined && typeof found.value === "function" && found.value.name !== "") return found.value.name
  }
  return null
}
const prefixOf = (name, tag, fallback, size = "") => {
  if (name === null) return tag !== "" && fallback !== tag ? `[${fallback}${size}: null prototype] [${tag}] ` : `[${fallback}${size}: null prototype] `
  return tag !== "" && name !== tag ? `${name}${size} [${tag}] ` : `${name}${size} `
}
const functionBase = (value, name, tag) => {
  const source = Function.prototype.toString.call(value)
  if (source.startsWith("class") && source.endsWith("}")) {
    const own = Object.hasOwn(value, "name") && value.name !== ""
    let base = `[class ${own ? value.name : "(anonymous)"}`
    if (name !== "Function" && name !== null) base += ` [${name}]`
    if (tag !== "" && name !== tag) base += ` [${tag}]`
    if (name !== null) {
      const parent = Object.getPrototypeOf(value).name
      if (parent) base += ` extends ${parent}`
    } else base += " extends null"
    return base + "]"
  }
  let kind = "Function"
  const real = Object.prototype.toString.call(value).slice(8, -1)
  if (real === "GeneratorFunction" || real === "AsyncFunction" || real === "AsyncGeneratorFunction") kind = real
  let base = `[${kind}`
  if (name === null) base += " (null prototype)"
  base += value.name === "" ? " (anonymous)" : `: ${value.name}`
  base += "]"
  if (name !== kind && name !== "Function" && name !== null) base += ` ${name}`
  if (tag !== "" && name !== tag && tag !== kind) base += ` [${tag}]`
  return base
}
const TypedArray = Object.getPrototypeOf(Uint8Array)
const typedName = value => Object.getOwnPropertyDescriptor(TypedArray.prototype, Symbol.toStringTag).get.call(value)
const isA = (method, value) => { try { method.call(value); return true } catch { return false } }
const getter = (type, name) => Object.getOwnPropertyDescriptor(type.prototype, name).get
const MAP = getter(Map, "size"), SET = getter(Set, "size"), BUFFER = getter(ArrayBuffer, "byteLength")
const BOXES = [["Number", Number.prototype.valueOf], ["String", String.prototype.valueOf], ["Boolean", Boolean.prototype.valueOf], ["BigInt", BigInt.prototype.valueOf], ["Symbol", Symbol.prototype.valueOf]]
const symbolKeys = value => Object.getOwnPropertySymbols(value).filter(each => Object.prototype.propertyIsEnumerable.call(value, each))
const ownKeys = value => [...Object.keys(value), ...symbolKeys(value)]
const more = (count, noun) => `... ${count} more ${noun}${count > 1 ? "s" : ""}`

class Inspector {
  constructor(options) {
    this.depth = options?.depth === undefined ? 2 : options.depth ?? Infinity
    this.breakLength = options?.breakLength ?? 80
    this.compact = options?.compact === false ? 0 : typeof options?.compact === "number" ? options.compact : 3
    this.most = options?.maxArrayLength === undefined ? 100 : options.maxArrayLength ?? Infinity
    this.seen = []; this.indent = 0; this.current = 0; this.circular = new Map()
  }
  show(value, level, typed = false) {
    if (value === null) return "null"
    if (typeof value !== "object" && typeof value !== "function") return this.primitive(value, typed)
    const own = value[inspect.custom]
    if (typeof own === "function" && own !== inspect) {
      const shown = own.call(value, this.depth - level, {}, inspect)
      if (shown !== value) return typeof shown === "string" ? shown.replaceAll("\n", `\n${" ".repeat(this.indent)}`) : this.show(shown, level)
    }
    if (this.seen.includes(value)) {
      if (!this.circular.has(value)) this.circular.set(value, this.circular.size + 1)
      return `[Circular *${this.circular.get(value)}]`
    }
    return this.raw(value, level, typed)
  }
  primitive(value, typed) {
    switch (typeof value) {
      case "string": {
        let text = value, trailer = ""
        if (text.length > 10000) {
          trailer = more(text.length - 10000, "character")
          text = text.slice(0, 10000)
        }
        if (text.length > 16 && text.length > this.breakLength - this.indent - 4)
          return text.split(/(?<=\n)/).map(quoted).join(` +\n${" ".repeat(this.indent + 2)}`) + trailer
        return quoted(text) + trailer
      }
      case "number": return Object.is(value, -0) ? "-0" : `${value}`
      case "bigint": return `${value}n`
      case "symbol": return Symbol.prototype.toString.call(value)
      default: return `${value}`
    }
  }
  raw(value, level, typed) {
    const name = nameOf(value)
    let tag = value[Symbol.toStringTag]
    if (typeof tag !== "string" || (tag !== "" && tag === name)) tag = ""
    let base = "", list = () => [], braces = ["{", "}"], array = false, keys = ownKeys(value)
    const isArray = Array.isArray(value), kind = ArrayBuffer.isView(value) ? typedName(value) : undefined
    if (isArray) {
      const prefix = name !== "Array" || tag !== "" ? prefixOf(name, tag, "Array", `(${value.length})`) : ""
      keys = keys.filter(each => typeof each === "symbol" || !(String(each >>> 0) === each && each >>> 0 !== 0xffffffff))
      braces = [`${prefix}[`, "]"]
      if (value.length === 0 && keys.length === 0) return `${braces[0]}]`
      array = true
      list = () => this.array(value, level)
    } else if (isA(SET, value)) {
      braces = [`${prefixOf(name, tag, "Set", `(${SET.call(value)})`)}{`, "}"]
      if (value.size === 0 && keys.length === 0) return `${braces[0]}}`
      list = () => this.within(() => this.few([...Set.prototype.values.call(value)], each => this.show(each, level + 1)))
    } else if (isA(MAP, value)) {
      braces = [`${prefixOf(name, tag, "Map", `(${MAP.call(value)})`)}{`, "}"]
      if (value.size === 0 && keys.length === 0) return `${braces[0]}}`
      list = () => this.within(() => this.few([...Map.prototype.entries.call(value)], ([k, v]) => `${this.show(k, level + 1)} => ${this.show(v, level + 1)}`))
    } else if (kind !== undefined) {
      keys = keys.filter(each => typeof each === "symbol" || String(each >>> 0) !== each)
      braces = [`${prefixOf(name, tag, kind, `(${value.length})`)}[`, "]"]
      if (value.length === 0 && keys.length === 0) return `${braces[0]}]`
      array = true
      list = () => this.few([...TypedArray.prototype.values.call(value)], each => this.primitive(each))
    } else if (tag === "Map Iterator" || tag === "Set Iterator") {
      braces = [`[${tag}] {`, "}"]
      list = () => []
    } else if (typeof value === "function") {
      base = functionBase(value, name, tag)
      if (keys.length === 0) return base
    } else if (Object.prototype.toString.call(value) === "[object Arguments]" && tag === "") {
      braces[0] = "[Arguments] {"
    } else if (value instanceof RegExp) {
      base = RegExp.prototype.toString.call(value)
      const prefix = prefixOf(name, tag, "RegExp")
      if (prefix !== "RegExp ") base = prefix + base
      if (keys.length === 0 || level > this.depth) return base
    } else if (value instanceof Date) {
      base = Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString()
      const prefix = prefixOf(name, tag, "Date")
      if (prefix !== "Date ") base = prefix + base
      if (keys.length === 0) return base
    } else if (Error.isError ? Error.isError(value) : value instanceof Error) {
      base = this.error(value, name, keys, level)
      if ("cause" in value && Object.hasOwn(value, "cause") && !keys.includes("cause")) keys.push("cause")
      if (Array.isArray(value.errors) && !keys.includes("errors")) keys.push("errors")
      if (keys.length === 0) return base
    } else if (isA(BUFFER, value)) {
      const bytes = [...new Uint8Array(value)]
      const shown = bytes.slice(0, 50).map(each => each.toString(16).padStart(2, "0")).join(" ") + (bytes.length > 50 ? ` ${more(bytes.length - 50, "byte")}` : "")
      braces[0] = `${prefixOf(name, tag, "ArrayBuffer")}{`
      list = () => [`[Uint8Contents]: <${shown}>`, `byteLength: ${bytes.length}`]
    } else if (value instanceof DataView) {
      braces[0] = `${prefixOf(name, tag, "DataView")}{`
      list = () => ["byteLength", "byteOffset", "buffer"].map(each => `${each}: ${this.within(() => this.show(value[each], level + 1))}`)
    } else if (value instanceof Promise) {
      braces[0] = `${prefixOf(name, tag, "Promise")}{`
      list = () => ["<pending>"]
    } else if (value instanceof WeakSet || value instanceof WeakMap) {
      braces[0] = `${prefixOf(name, tag, "WeakMap")}{`
      list = () => ["<items unknown>"]
    } else if (value instanceof WeakRef) {
      braces[0] = `${prefixOf(name, tag, "WeakRef")}{`
      list = () => [this.within(() => this.show(value.deref(), level + 1))]
    } else {
      const box = BOXES.find(([, method]) => isA(method, value))
      if (box !== undefined) {
        const [type, method] = box
        if (type === "String") keys = keys.slice(value.length)
        base = `[${type}`
        if (type !== name) base += name === null ? " (null prototype)" : ` (${name})`
        base += `: ${this.primitive(method.call(value))}]`
        if (tag !== "" && tag !== name) base += ` [${tag}]`
        if (keys.length === 0) return base
      } else if (name === "Object") {
        if (tag !== "") braces[0] = `${prefixOf(name, tag, "Object")}{`
        if (keys.length === 0) return `${braces[0]}}`
      } else {
        if (keys.length === 0) return `${prefixOf(name, tag, "Object")}{}`
        braces[0] = `${prefixOf(name, tag, "Object")}{`
      }
    }
    if (level > this.depth) {
      const shown = prefixOf(name, tag, isArray ? "Array" : "Object").slice(0, -1)
      return `[${name === null ? shown.replace(/^\[|\]$/g, "") : shown}]`.replace(/^\[\[(.*)\]\]$/, "[$1]")
    }
    this.seen.push(value)
    this.current = level
    const output = list(level + 1)
    for (const key of keys) output.push(this.property(value, key, level, array))
    this.seen.pop()
    if (this.circular.has(value)) {
      const mark = `<ref *${this.circular.get(value)}>`
      if (this.compact !== true) base = base === "" ? mark : `${mark} ${base}`
    }
    const shown = this.joined(output, base, braces, array, level, value)
    return shown
  }
  within(work) {
    this.indent += 2
    try { return work() } finally { this.indent -= 2 }
  }
  few(values, shown) {
    const output = values.slice(0, this.most).map(shown)
    if (values.length > output.length) output.push(more(values.length - output.length, "item"))
    return output
  }
  array(value, level) {
    const output = []
    let at = 0
    for (; at < value.length && output.length < this.most; at++) {
      if (Object.hasOwn(value, at)) {
        output.push(this.property(value, String(at), level, true, true))
        continue
      }
      const from = at
      while (at + 1 < value.length && !Object.hasOwn(value, at + 1)) at++
      const count = at - from + 1
      output.push(`<${count} empty item${count > 1 ? "s" : ""}>`)
    }
    if (at < value.length) output.push(more(value.length - at, "item"))
    return output
  }
  property(value, key, level, array, indexed = false) {
    const found = Object.getOwnPropertyDescriptor(value, key) ?? { value: value[key], enumerable: true }
    let shown
    if ("value" in found) shown = this.within(() => this.show(found.value, level + 1))
    else if (found.get !== undefined) shown = found.set !== undefined ? "[Getter/Setter]" : "[Getter]"
    else shown = found.set !== undefined ? "[Setter]" : "undefined"
    if (indexed) return shown
    let name
    if (typeof key === "symbol") name = `[${Symbol.prototype.toString.call(key)}]`
    else if (key === "__proto__") name = "['__proto__']"
    else if (!found.enumerable) name = `[${key}]`
    else name = KEY.test(key) ? key : quoted(key)
    return `${name}: ${shown}`
  }
  error(value, name, keys, level) {
    for (const key of ["name", "message", "stack"]) {
      const at = keys.indexOf(key)
      if (at >= 0 && String(value.stack ?? "").includes(String(value[key]))) keys.splice(at, 1)
    }
    const head = value.message === "" ? `${value.name}` : `${value.name}: ${value.message}`
    const lines = String(value.stack ?? "").split("\n").filter(line => line.trim() && !line.includes("<cmdline>") && !line.includes("(native)"))
    const own = name && value.name === "Error" && name !== "Error" ? head.replace(/^Error/, name.includes("Error") ? name : `Error`) : head
    const text = lines.length ? [own, ...lines.map(line => line.replaceAll("<evalScript>", script))].join("\n") : `[${own}]`
    return this.indent ? text.replaceAll("\n", `\n${" ".repeat(this.indent)}`) : text
  }
  joined(output, base, braces, array, level, value) {
    const entries = output.length
    if (array && entries > 6 && this.compact >= 1) output = this.grouped(output, value)
    if (this.current - level < this.compact && entries === output.length) {
      const start = output.length + this.indent + braces[0].length + base.length + 10
      let total = output.length + start
      const fits = total + output.length <= this.breakLength && output.every(each => (total += each.length) <= this.breakLength) && !base.includes("\n")
      if (fits) {
        const line = output.join(", ")
        if (!line.includes("\n")) return `${base ? `${base} ` : ""}${braces[0]} ${line} ${braces[1]}`
      }
    }
    const indentation = `\n${" ".repeat(this.indent)}`
    return `${base ? `${base} ` : ""}${braces[0]}${indentation}  ${output.join(`,${indentation}  `)}${indentation}${braces[1]}`
  }
  grouped(output, value) {
    const extra = this.most < output.length ? 1 : 0
    const count = output.length - extra
    const lengths = output.slice(0, count).map(width)
    const total = lengths.reduce((sum, each) => sum + each + 2, 0), longest = Math.max(...lengths) + 2
    if (!(longest * 3 + this.indent < this.breakLength && (total / longest > 5 || longest - 2 <= 6))) return output
    const bias = Math.sqrt(longest - total / output.length), biased = Math.max(longest - 3 - bias, 1)
    const columns = Math.min(
      Math.round(Math.sqrt(2.5 * biased * count) / biased),
      Math.floor((this.breakLength - this.indent) / longest), this.compact * 4, 15)
    if (columns <= 1) return output
    const widths = Array.from({ length: columns }, (_, at) => {
      let most = 0
      for (let row = at; row < count; row += columns) most = Math.max(most, lengths[row])
      return most + 2
    })
    const numbers = value !== undefined && output.every((_, at) => typeof value[at] === "number" || typeof value[at] === "bigint")
    const rows = []
    for (let at = 0; at < count; at += columns) {
      const end = Math.min(at + columns, count)
      let row = "", each = at
      for (; each < end - 1; each++) {
        const space = widths[each - at] + output[each].length - lengths[each]
        row += numbers ? `${output[each]}, `.padStart(space) : `${output[each]}, `.padEnd(space)
      }
      row += numbers ? output[each].padStart(widths[each - at] + output[each].length - lengths[each] - 2) : output[each]
      rows.push(row)
    }
    if (extra) rows.push(output[count])
    return rows
  }
}
const inspect = (value, options) => new Inspector(options).show(value, 0)
inspect.custom = Symbol.for("nodejs.util.inspect.custom")

const format = (first, ...rest) => {
  if (typeof first !== "string") return [first, ...rest].map(shown).join(" ")
  let at = 0
  const text = rest.length === 0 ? first : first.replace(/%[sdifjoOc%]/g, mark => {
    if (mark === "%%") return "%"
    if (at >= rest.length) return mark
    const value = rest[at++]
    switch (mark) {
      case "%s": return formatText(value)
      case "%d": return typeof value === "bigint" ? `${value}n` : typeof value === "symbol" ? "NaN" : inspect(typeof value === "object" && value !== null ? NaN : Number(value))
      case "%i": return typeof value === "bigint" ? `${value}n` : typeof value === "symbol" ? "NaN" : inspect(parseInt(value))
      case "%f": return typeof value === "symbol" ? "NaN" : inspect(parseFloat(value))
      case "%j": try { return JSON.stringify(value) } catch (error) { if (/circular/i.test(error.message)) return "[Circular]"; throw error }
      case "%o": return inspect(value, { depth: 4 })
      case "%O": return inspect(value)
      default: return ""
    }
  })
  return [text, ...rest.slice(at).map(shown)].join(" ")
}
const shown = value => typeof value === "string" ? value : inspect(value)
const formatText = value => {
  if (typeof value === "bigint") return `${value}n`
  if (Object.is(value, -0)) return "-0"
  if (typeof value !== "object" || value === null) return typeof value === "function" ? inspect(value, { depth: 0 }) : String(value)
  const own = typeof value.toString === "function" && value.toString !== Object.prototype.toString && value.toString !== Error.prototype.toString
  const builtin = Array.isArray(value) || value instanceof Map || value instanceof Set
  return (own && !builtin) || value instanceof Error ? String(value) : inspect(value, { depth: 0 })
}
let groups = ""
const write = (stream, text) => {
  stream.puts((groups ? groups + text.replaceAll("\n", "\n" + groups) : text) + "\n")
  stream.flush()
}
const counts = new Map(), times = new Map()
const duration = label => `${label}: ${(Date.now() - times.get(label)).toFixed(3)}ms`
const table = (data, columns) => {
  if (data === null || typeof data !== "object") return write(out, shown(data))
  const cell = value => typeof value === "object" && value !== null ? inspect(value, { depth: -1 }) : inspect(value)
  const isMap = data instanceof Map, isSet = data instanceof Set
  const rows = isMap ? [...data].map(([key, value], at) => [String(at), { Key: key, Values: value }]) : isSet ? [...data].map((value, at) => [String(at), value]) : Object.keys(data).map(key => [key, data[key]])
  const head = [], plain = rows.map(([, value]) => typeof value !== "object" && typeof value !== "function" || value === null)
  for (const [at, [, value]] of rows.entries()) if (!plain[at]) for (const key of Object.keys(value)) if (!head.includes(key)) head.push(key)
  const names = columns ?? head, hasValues = plain.some(Boolean)
  const first = isMap || isSet ? "(iteration index)" : "(index)"
  const lines = rows.map(([key, value], at) => [key, ...names.map(name => !plain[at] && Object.hasOwn(value, name) ? cell(value[name]) : ""), ...(hasValues ? [plain[at] ? cell(value) : ""] : [])])
  const titles = [first, ...names, ...(hasValues ? ["Values"] : [])]
  const widths = titles.map((title, at) => Math.max(width(title), ...lines.map(line => width(line[at]))) + 2)
  const row = line => `│${line.map((text, at) => {
    return ` ${text}${" ".repeat(widths[at] - width(text) - 1)}`
  }).join("│")}│`
  const rule = (left, middle, right) => left + widths.map(each => "─".repeat(each)).join(middle) + right
  write(out, [rule("┌", "┬", "┐"), row(titles), rule("├", "┼", "┤"), ...lines.map(row), rule("└", "┴", "┘")].join("\n"))
}
const log = (...values) => write(out, format(...values)), complain = (...values) => write(err, format(...values))
globalThis.console = {
  log: (...values) => values.length ? log(...values) : write(out, ""), info: log, debug: log, error: complain, warn: complain,
  trace: (...values) => complain("Trace" + (values.length ? ": " : "") + format(...values)),
  dir: (value, options) => write(out, inspect(value, options)), dirxml: log, table,
  assert: (claim, ...values) => { if (!claim) complain(...(typeof values[0] === "string" ? [`Assertion failed: ${values[0]}`, ...values.slice(1)] : ["Assertion failed", ...values])) },
  group: (...values) => { if (values.length) log(...values); groups += "  " },
  groupCollapsed: (...values) => console.group(...values), groupEnd: () => { groups = groups.slice(2) },
  count: (label = "default") => { counts.set(label, (counts.get(label) ?? 0) + 1); log(`${label}: ${counts.get(label)}`) },
  countReset: (label = "default") => { counts.delete(label) },
  time: (label = "default") => { times.set(label, Date.now()) },
  timeLog: (label = "default", ...values) => log(duration(label), ...values), timeEnd: (label = "default") => { log(duration(label)); times.delete(label) },
}

O.os.chdir("/work")
for (;;) {
  const request = readLine()
  if (!("code" in request)) continue
  script = request.script
  try {
    const value = await O.std.evalScript(request.code, { async: true })
    if (request.keep && value?.value !== undefined) console.log(value.value)
    do {
      await new Promise(done => O.os.setTimeout(done, 0))
      await settled()
    } while (timers.size || calls.size || due.length)
  } catch (error) {
    if (!request.keep) fail(error)
    err.puts(`Uncaught ${error instanceof Error ? shownError(error) : inspect(error)}\n`)
    ended = 1
  }
  out.flush(); err.flush()
  if (!request.keep) leave(globalThis.process.exitCode ?? 0)
  say({ ended: ended ?? 0 })
  ended = null
}
