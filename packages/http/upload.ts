import type { IncomingMessage } from 'node:http'
import type { Readable, Writable } from 'node:stream'
import multer, { type StorageEngine } from 'multer'
import type { MultipartBodyRule } from '@sluice/api/operation'
import { AppError, invalidField, invalidFormat, missingField, tooLarge } from '@sluice/runtime/errors'
import { validate } from '@sluice/runtime/validate'
import { bodyTooLarge } from './decompress.ts'
import { discard, discardedBytesMax } from './read-body.ts'
import { removeOrLog } from './remove-or-log.ts'
import type { PublicRequest } from './route.ts'
import { serverLimits } from './server-limits.ts'

/** The multipart body of a request, which has not been read yet. */
export interface Upload<Fields> {
  /**
   * Reads the whole body, hands its one file to `store` while it arrives, and validates the text fields, which may
   * follow the file. May be called once.
   *
   * Throws 400 `Invalid format: …` for a body that is not multipart, ends early or has another file,
   * `Missing required field: …` without a file, the errors of the fields' schema, 413 for too large a file, and the
   * errors of the store. After such an error, or when the handler fails afterwards, the file is removed with
   * `store.remove`. Errors of the form come only when the body has been read, because multer reports them then.
   */
  receive<Stored>(store: UploadStore<Stored>): Promise<{ fields: Fields; stored: Stored }>
}

/** Where the file of an upload goes. */
export interface UploadStore<Stored> {
  /**
   * Stores the file while it arrives. `file` fails when the client disconnects or the file is too large: `save` must
   * then reject and keep nothing. Bytes that `save` leaves unread are thrown away. `fileName` is the name that the
   * client sent: any text, never to be used as a path.
   */
  save(file: Readable, fileName: string): Promise<Stored>
  /** Removes a stored file whose request failed afterwards. */
  remove(stored: Stored): Promise<void>
}

/** The largest possible bodies of the requests whose file is being received, in bytes. */
const receiving = new WeakMap<IncomingMessage, number>()

/**
 * The bytes that the body of an upload may have at most, from which server.ts computes its deadline; undefined when the
 * request is not receiving a file.
 */
export function uploadBytesMax(request: IncomingMessage): number | undefined {
  return receiving.get(request)
}

/** An upload whose file can be removed again, when the handler fails after it was stored. */
export interface PendingUpload extends Upload<object> {
  /** Removes the stored file, if there is one. Never rejects. */
  removeStored(): Promise<void>
}

/** The upload of a request to an operation with a multipart body. */
export function createUpload(
  rule: MultipartBodyRule,
  { incoming, log }: Pick<PublicRequest, 'incoming' | 'log'>,
): PendingUpload {
  let removeStored = (): Promise<void> => Promise.resolve()
  return {
    removeStored: () => removeStored(),
    receive: async <Stored>(store: UploadStore<Stored>) => {
      if (!incoming) throw new Error('an upload needs the request of node:http')
      const receiver = new FileReceiver(store, rule.maxBytes)
      removeStored = async () => {
        removeStored = () => Promise.resolve()
        // The client must read why the request failed, and the operator that a file is left.
        await removeOrLog(receiver.removeStored(), log)
      }
      receiving.set(incoming, rule.maxBytes + formBytesMax)
      try {
        const sent = await parseForm(incoming, receiver, rule)
        if (!receiver.saving) {
          // Clients that forget the name send the content as a text field: curl -F file=… in place of -F file=@….
          if (rule.file in sent) throw invalidField(rule.file, 'must be sent as a file, with a filename in its part')
          throw missingField(rule.file)
        }
        return { stored: await receiver.saving, fields: validate(rule.fields, { ...sent }) as object }
      } catch (error) {
        await removeStored()
        throw error
      } finally {
        receiving.delete(incoming)
      }
    },
  }
}

/** A storage engine of multer that hands the stream of the file to a store. */
class FileReceiver<Stored> implements StorageEngine {
  /** Set once the file of the body has begun. */
  saving: Promise<Stored> | undefined
  /** Called with the failure of the store, or with the 413 for a file that is too large. */
  onFailure: (error: Error) => void = () => undefined
  readonly #store: UploadStore<Stored>
  readonly #maxBytes: number

  constructor(store: UploadStore<Stored>, maxBytes: number) {
    this.#store = store
    this.#maxBytes = maxBytes
  }

  _handleFile(
    _request: unknown,
    { stream, originalname }: Pick<Express.Multer.File, 'stream' | 'originalname'>,
    done: (error?: unknown) => void,
  ): void {
    // Busboy ends the stream of a file that is too large as if the file were complete, so the stream is made to fail.
    stream.once('limit', () => {
      const error = tooLarge(`File is larger than ${this.#maxBytes} bytes`)
      this.onFailure(error)
      stream.destroy(error)
    })
    this.saving = Promise.resolve().then(() => this.#store.save(stream, originalname))
    this.saving.then(
      () => {
        stream.resume()
        done(null)
      },
      (error: unknown) => {
        this.onFailure(error as Error)
        // The rest of the file has no reader any more.
        stream.destroy()
        done(error)
      },
    )
  }

  /** Multer's own removal, which may run before `save` has ended; `removeStored` does the work. */
  _removeFile(_request: unknown, _file: unknown, done: (error: null) => void): void {
    done(null)
  }

  /** Waits for the end of `save` and removes what it has stored. */
  async removeStored(): Promise<void> {
    const result = await this.saving?.then(
      (stored) => ({ stored }),
      () => undefined,
    )
    if (result) await this.#store.remove(result.stored)
  }
}

/** How many text fields a form may have, and how large each may be: they are held in memory. */
const fieldsMax = 16
const fieldBytesMax = 8 * 1024
/** Size of everything in a body but its file: fields, boundaries and the headers of parts. */
const formBytesMax = 1024 * 1024

/**
 * Reads a multipart body to its end and returns its text fields by name. Rejects with 400 or 413, and with the error of
 * the store as soon as the store fails; the rest of the body is then read and thrown away, within limits.
 */
function parseForm(
  request: IncomingMessage,
  receiver: FileReceiver<unknown>,
  { file, maxBytes }: MultipartBodyRule,
): Promise<object> {
  if (Number(request.headers['content-length'] ?? 0) > maxBytes + formBytesMax) {
    discard(request)
    return Promise.reject(bodyTooLarge(maxBytes))
  }
  return new Promise((resolve, reject) => {
    let parser: Writable | undefined
    let length = 0
    let lengthMax = maxBytes + formBytesMax
    let hasFailed = false

    const fail = (error: Error): void => {
      if (hasFailed) return
      hasFailed = true
      reject(error)
      // Multer reads the rest of the body, without a limit.
      lengthMax = length + discardedBytesMax
      if (request.complete) return
      const timer = setTimeout(() => request.destroy(), serverLimits.requestTimeoutMs).unref()
      request.once('close', () => clearTimeout(timer))
    }
    const hasEndedEarly = (): boolean => request.destroyed && !request.complete
    /** The reason of a failure that the store or multer reported. */
    const toReason = (error: Error): Error => {
      if (hasEndedEarly()) return invalidFormat('body ended early')
      // A parser that fails destroys the stream of the file, and so makes the store fail. A store that refuses the file
      // stops reading, and so makes the parser fail while the store removes what it has written.
      return parser?.errored && isStreamError(error) ? invalidForm() : error
    }
    const count = (chunk: Buffer): void => {
      length += chunk.length
      if (length <= lengthMax) return
      if (hasFailed) request.destroy()
      else fail(bodyTooLarge(maxBytes))
    }

    // If the client has already disconnected, the stream emits no further event.
    if (request.destroyed) {
      reject(invalidFormat('body ended early'))
      return
    }
    request.on('data', count)
    receiver.onFailure = (error) => fail(toReason(error))
    const parse = multer({
      storage: receiver,
      limits: {
        files: 1,
        fileSize: maxBytes,
        fields: fieldsMax,
        fieldSize: fieldBytesMax,
        fieldNameSize: 100,
        fieldNestingDepth: 0,
      },
      defParamCharset: 'utf8',
      streamHandler: (_request: unknown, writable: Writable) => {
        parser = writable
        request.pipe(writable)
      },
    } as multer.Options).single(file)
    parse(request as never, undefined as never, (error: unknown) => {
      if (error === undefined || error === null) resolve((request as { body?: object }).body ?? {})
      else if (isStreamError(error) && !hasEndedEarly() && receiver.saving) {
        // Either the parser has failed, or the store has stopped reading, which destroys the stream of the file. Multer
        // may report that before `onFailure` reports the error of the store.
        receiver.saving.then(
          () => fail(invalidForm()),
          () => undefined,
        )
      } else fail(toReason(toFormError(error, file)))
    })
  })
}

/** Whether an error that multer reports is neither its own nor one of the store. */
function isStreamError(error: unknown): boolean {
  return !(error instanceof multer.MulterError) && !(error instanceof AppError)
}

/** Returns an error of the store unchanged, and the 400 for an error of multer or its parser. */
function toFormError(error: unknown, file: string): Error {
  if (error instanceof multer.MulterError) return multerError(error.code, file)
  return error instanceof AppError ? error : invalidForm()
}

function multerError(code: multer.ErrorCode, file: string): AppError {
  // eslint-disable-next-line @typescript-eslint/switch-exhaustiveness-check -- The other codes say the same to a client.
  switch (code) {
    case 'LIMIT_UNEXPECTED_FILE':
      return invalidFormat(`the file must be in the field "${file}"`)
    case 'LIMIT_FILE_COUNT':
      return invalidFormat('body must have one file')
    case 'LIMIT_FIELD_COUNT':
      return invalidFormat(`body must have at most ${fieldsMax} fields besides the file`)
    case 'LIMIT_FIELD_VALUE':
      return invalidFormat(`a field must have at most ${fieldBytesMax} bytes`)
    default:
      return invalidForm()
  }
}

function invalidForm(): AppError {
  return invalidFormat('body is not valid multipart/form-data')
}
