"""The declarations of the recorded transcript, and two steps more."""

GREET = """\
task "greeting.compose" {
  version "1.0.0"
  input { name: String }
  output { message: String }
}
workflow Greet {
  version "1.0.0"
  input { name: String }
  output { message: String }
  step compose {
    worker "greeting.compose"
    using ruby
    with { name: input.name }
    timeout 30s
    retry { attempts: 3, backoff: fixed, initial_delay: 1s, non_retryable: ["INVALID_NAME"] }
  }
  return { message: compose.message }
}
"""

# Two steps side by side, and a third that needs both; written in the wrong order.
ORDER = """\
task "shop.price" {
  version "1.0.0"
  input { item: String }
  output { amount: Float }
}
task "shop.stock" {
  version "2.0.0"
  input { item: String }
  output { left: Int }
}
task "shop.charge" {
  version "1.0.0"
  input { order: String, amount: Float, left: Int, currency: String }
  output { charge: String }
}
workflow Order {
  version "1.0.0"
  input { order: String, item: String }
  output { charge: String, amount: Float }
  step charge {
    worker "shop.charge" using python
    with { order: input.order, amount: price.amount, left: stock.left, currency: "EUR" }
    retry {
      attempts: 3
      backoff: exponential
      initial_delay: 500ms
    }
    idempotency_key: input.order
  }
  step price { worker "shop.price" with { item: input.item } }
  step stock { worker "shop.stock" using any with { item: input.item } }
  return { charge: charge.charge, amount: price.amount }
}
"""
