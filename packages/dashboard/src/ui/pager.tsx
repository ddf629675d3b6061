import { messages } from '../messages/en.ts'
import { Button } from './button.tsx'

export interface PagerProps {
  offset: number
  limit: number
  total: number
  onChange: (offset: number) => void
}

/** Leads through the pages of a list, newest first; nothing when there is one. */
export function Pager({ offset, limit, total, onChange }: PagerProps) {
  if (total <= limit && offset === 0) return null
  return (
    <div class="pager">
      <span class="muted">
        {messages.ui.rowsOf(Math.min(offset + 1, total), Math.min(offset + limit, total), total)}
      </span>
      <Button
        disabled={offset === 0}
        onClick={() => {
          onChange(Math.max(0, offset - limit))
        }}
      >
        {messages.ui.newer}
      </Button>
      <Button
        disabled={offset + limit >= total}
        onClick={() => {
          onChange(offset + limit)
        }}
      >
        {messages.ui.older}
      </Button>
    </div>
  )
}
