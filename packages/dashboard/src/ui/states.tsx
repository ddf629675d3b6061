import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { type ApiError, isPassing } from '../api/error.ts'
import { messages } from '../messages/en.ts'
import { Button } from './button.tsx'
import { Icon, type IconName } from './icon.tsx'

/** Nothing to show: why, and one action. */
export function EmptyState({
  title,
  why,
  action,
  icon,
  isPage = false,
}: {
  title: string
  why?: ComponentChildren
  action?: ComponentChildren
  icon?: IconName
  /** It stands in place of a whole page: its title is that of the page. */
  isPage?: boolean
}) {
  return (
    <div class="empty">
      {icon === undefined ? null : <Icon name={icon} size={24} />}
      {isPage ? (
        <h1 class="empty-title" tabIndex={-1}>
          {title}
        </h1>
      ) : (
        <p class="empty-title">{title}</p>
      )}
      {why === undefined ? null : <p class="muted">{why}</p>}
      {action === undefined ? null : <div class="empty-action">{action}</div>}
    </div>
  )
}

/** Wait before the next try of what is not refetched by itself, when the answer has no `Retry-After`. */
const retryMs = 5_000

interface ErrorPanelProps {
  error: ApiError | undefined
  onRetry?: () => void
  /** A change has failed: after a lost connection it may have been made, and must not be made twice. */
  isChange?: boolean
}

/**
 * The error panel that replaces the part that failed: the error message of the HTTP interface, the request's id and a
 * Retry button. It counts down to the moment at which a query is refetched by itself. What else failed by 429, 503 or a
 * lost connection is tried again by the panel, with the `onRetry` of the latest render. Without an error, it renders
 * nothing.
 */
export function ErrorPanel({ error, ...rest }: ErrorPanelProps) {
  return error === undefined ? null : <Failure error={error} {...rest} />
}

function Failure({ error, onRetry, isChange = false }: ErrorPanelProps & { error: ApiError }) {
  const { retryAt } = error
  const isRetried =
    retryAt !== undefined || (onRetry !== undefined && isPassing(error) && !(isChange && error.status === 0))
  const latest = useRef(onRetry)
  latest.current = onRetry
  const [seconds, setSeconds] = useState<number>()
  // Each failure of a query is another error: while the same one is still shown after a click, it is being refetched.
  const [tried, setTried] = useState<ApiError>()
  useEffect(() => {
    if (!isRetried) {
      setSeconds(undefined)
      return undefined
    }
    const at = retryAt ?? Date.now() + (error.retryAfterMs ?? retryMs)
    const left = () => Math.max(0, Math.ceil((at - Date.now()) / 1000))
    setSeconds(left())
    const timer = setInterval(() => {
      setSeconds(left())
      // A page that nobody sees tries again when it is seen.
      if (retryAt !== undefined || left() > 0 || document.hidden) return
      clearInterval(timer)
      latest.current?.()
    }, 250)
    return () => clearInterval(timer)
    // A new error starts a new countdown; the function is a new one at each render.
  }, [error, isRetried])
  return (
    <div class="error-panel" role="alert">
      <Icon name="triangle-alert" />
      <div class="stack-small">
        <p>
          <bdi>{error.message}</bdi>
        </p>
        {error.requestId === undefined ? null : (
          // The next try has another id, which is no reason to read the alert again.
          <p class="small muted" aria-live="off">
            <code>{messages.errors.requestId(error.requestId)}</code>
          </p>
        )}
        {onRetry === undefined ? null : (
          <div class="row">
            <Button
              isBusy={tried === error && !isChange}
              onClick={() => {
                setTried(error)
                onRetry()
              }}
            >
              {messages.errors.retry}
            </Button>
            {seconds === undefined ? null : (
              <span class="muted" aria-live="off">
                {seconds === 0 ? messages.errors.retrying : messages.errors.retryIn(seconds)}
              </span>
            )}
          </div>
        )}
      </div>
    </div>
  )
}

/** A grey shape of the size of what is loading; it appears after 150 ms, so that fast answers don't flicker. */
export function Skeleton({ width = '100%', height = 20 }: { width?: number | string; height?: number | string }) {
  return <span class="skeleton" aria-hidden="true" style={{ inlineSize: width, blockSize: height }} />
}

/** A number of lines of a skeleton, of the height of a table's rows. */
export function SkeletonRows({ rows }: { rows: number }) {
  return (
    <div class="skeleton-rows" role="status">
      <span class="hidden-text">{messages.ui.loading}</span>
      {Array.from({ length: rows }, (_, at) => (
        <Skeleton key={at} width={`${90 - ((at * 37) % 50)}%`} height={14} />
      ))}
    </div>
  )
}

export interface StatusProps {
  kind: 'good' | 'warn' | 'danger' | 'neutral' | 'busy'
  children: ComponentChildren
}

const statusIcons = {
  good: 'circle-check',
  warn: 'triangle-alert',
  danger: 'circle-x',
  neutral: 'circle-minus',
  busy: 'loader',
} as const

/** A state by icon and text; colour only adds to them. */
export function Status({ kind, children }: StatusProps) {
  return (
    <span class={`status ${kind}`}>
      <Icon name={statusIcons[kind]} size={14} />
      <span>{children}</span>
    </span>
  )
}

/** How far something is; without `max` it only says that it is under way. */
export function Progress({ label, value, max }: { label: string; value?: number; max?: number }) {
  return (
    <progress
      class="progress"
      aria-label={label}
      {...(max === undefined ? {} : { value: value ?? 0, max: max || 1 })}
    />
  )
}

/** A page's title with its actions, and a sentence below it. */
export function PageTitle({
  title,
  sentence,
  actions,
}: {
  title: ComponentChildren
  sentence?: ComponentChildren
  actions?: ComponentChildren
}) {
  return (
    <header class="page-title">
      <div class="grow">
        <h1 tabIndex={-1}>{title}</h1>
        {sentence === undefined ? null : <p class="muted sentence">{sentence}</p>}
      </div>
      {actions === undefined ? null : <div class="row">{actions}</div>}
    </header>
  )
}
