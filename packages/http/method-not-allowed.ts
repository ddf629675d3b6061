import { AppError } from '@sluice/runtime/errors'

/** 405: the path has other methods, which the header `Allow` names. */
export class MethodNotAllowedError extends AppError {
  /** The methods as `Allow` lists them. */
  readonly allow: string

  constructor(methods: readonly string[]) {
    const allow = methods.join(', ')
    super('method_not_allowed', { message: `Method not allowed. Use ${allow}` })
    this.allow = allow
  }
}
