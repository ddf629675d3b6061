import { AppError } from '@sluice/runtime/errors'

/** 416: the file ends before the range begins; the header `Content-Range` names the size of the file. */
export class RangeNotSatisfiableError extends AppError {
  /** Value of `Content-Range`. */
  readonly contentRange: string

  /** `size`: bytes of the whole file. */
  constructor(size: number) {
    super('range_not_satisfiable', { message: `Range is not within the ${size} bytes of the file` })
    this.contentRange = `bytes */${size}`
  }
}
