import { useLayoutEffect } from 'preact/hooks'
import { messages } from '../messages/en.ts'
import { Button } from './button.tsx'

export interface PagerProps {
  offset: number
  limit: number
  total: number
  /** `isReplaced`: the page that was shown has no records any more, and is not a step of the history. */
  onChange: (offset: number, isReplaced?: boolean) => void
}

/**
 * Buttons for the pages of a list, newest first; nothing if there is only one page. If the page has no records any
 * more, changes to the last page that has some.
 */
export function Pager({ offset, limit, total, onChange }: PagerProps) {
  const isBeyond = offset > 0 && offset >= total
  useLayoutEffect(() => {
    if (isBeyond) onChange(Math.max(0, Math.floor((total - 1) / limit) * limit), true)
  }, [isBeyond, offset, total])
  if (total <= limit && offset === 0) return null
  return (
    <div class="pager">
      <span class="muted">
        {messages.ui.rowsOf(Math.min(offset + 1, total), Math.min(offset + limit, total), total)}
      </span>
      <Button disabled={offset === 0} onClick={() => onChange(Math.max(0, offset - limit))}>
        {messages.ui.newer}
      </Button>
      <Button disabled={offset + limit >= total} onClick={() => onChange(offset + limit)}>
        {messages.ui.older}
      </Button>
    </div>
  )
}
