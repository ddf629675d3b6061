import { useState } from 'preact/hooks'
import { messages } from '../messages/en.ts'
import { useViewQueries } from '../state/hooks.ts'
import { type CustomRange, datesOf, isValidCustom } from '../state/range.ts'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { TextField } from '../ui/field.tsx'

/** Two days, both included, in native date fields. */
export function RangeDialog({
  title,
  onChoose,
  onClose,
}: {
  title: string
  onChoose: (range: CustomRange) => void
  onClose: () => void
}) {
  const { bounds, zone } = useViewQueries()
  const shown = datesOf(bounds, zone)
  const [from, setFrom] = useState(shown.from)
  const [to, setTo] = useState(shown.to)
  const [isWrong, setWrong] = useState(false)
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault()
          if (isValidCustom({ from, to })) onChoose({ from, to })
          else setWrong(true)
        }}
      >
        <TextField label={messages.bar.from} type="date" required value={from} onInput={setFrom} />
        <TextField
          label={messages.bar.to}
          type="date"
          required
          value={to}
          onInput={setTo}
          error={isWrong ? messages.bar.wrongRange : undefined}
        />
        <div class="dialog-actions">
          <Button onClick={onClose}>{messages.bar.cancel}</Button>
          <Button kind="primary" type="submit">
            {messages.bar.apply}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
